"use strict";
// What is hidden and which scale an axis has is kept in the buttons' aria-pressed; colours are the style sheet's.
(() => {
  const charts = JSON.parse(document.getElementById("charts").textContent);
  const root = document.documentElement;
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const plots = (within) => all(".plot[data-chart]", within);
  const figures = all("figure[data-figure]");
  const press = (button, on) => button.setAttribute("aria-pressed", String(on));

  function draw(plot) {
    const { data, layout } = structuredClone(charts[plot.dataset.chart]);
    layout.dragmode = matchMedia("(pointer: coarse)").matches ? false : "zoom";
    return Plotly.newPlot(plot, data, layout, { displayModeBar: false, responsive: true });
  }

  function show(figure, chips, visible) {
    const keys = chips.map((chip) => chip.dataset.key);
    chips.forEach((chip) => press(chip, visible));
    for (const plot of plots(figure)) {
      const places = plot.data.flatMap((trace, place) => (keys.includes(trace.meta) ? [place] : []));
      if (places.length) Plotly.restyle(plot, { visible }, places);
    }
    for (const box of all("input[data-solver]")) {
      const shown = all(`button[data-solver="${box.dataset.solver}"]`).map((chip) => chip.ariaPressed === "true");
      box.checked = shown.includes(true);
      box.indeterminate = box.checked && shown.includes(false);
    }
  }

  function rescale(figure, { axis, type }) {
    all(`[data-axis="${axis}"]`, figure).forEach((button) => press(button, button.dataset.type === type));
    for (const plot of plots(figure)) {
      const own = charts[plot.dataset.chart].layout[`${axis}axis`];
      const change = { type, autorange: true, dtick: type === own.type ? own.dtick ?? null : null };
      Plotly.relayout(plot, Object.fromEntries(Object.entries(change).map(([name, to]) => [`${axis}axis.${name}`, to])));
    }
  }

  for (const figure of figures) {
    const chips = all("[data-key]", figure);
    figure.addEventListener("click", ({ target }) => {
      const button = target.closest("button");
      if (button?.dataset.key) show(figure, [button], button.ariaPressed !== "true");
      if (button?.dataset.axis) rescale(figure, button.dataset);
      if (button && "reset" in button.dataset) {
        plots(figure).forEach(draw);
        all("[data-axis]", figure).forEach((one) => press(one, one.dataset.atFirst === "true"));
        show(figure, chips, true);
      }
    });
  }
  for (const box of all("input[data-solver]")) {
    const of = (figure) => all(`button[data-solver="${box.dataset.solver}"]`, figure);
    box.addEventListener("change", ({ target: { checked } }) => figures.forEach((figure) => show(figure, of(figure), checked)));
  }
  document.getElementById("show-all")?.addEventListener("click", () => {
    figures.forEach((figure) => show(figure, all("[data-key]", figure), true));
  });

  // storage may be forbidden for a page from disk: then the choice lasts as long as the page
  const stored = (theme) => { try { return theme ? localStorage.setItem("condgrad-theme", theme) : localStorage.getItem("condgrad-theme"); } catch { return null; } };
  function setTheme(theme) {
    root.dataset.theme = theme;
    all("[data-theme-choice]").forEach((button) => press(button, button.dataset.themeChoice === theme));
  }
  for (const button of all("[data-theme-choice]")) {
    button.addEventListener("click", () => { setTheme(button.dataset.themeChoice); stored(button.dataset.themeChoice); });
  }

  /** Paper is narrow, whatever the screen, and charts do not follow by themselves. */
  function setPrinting(on) {
    root.classList.toggle("printing", on);
    for (const plot of plots(document)) {
      Plotly.relayout(plot, on ? { autosize: false, width: plot.clientWidth, height: plot.clientHeight } : { autosize: true, width: null, height: null });
    }
  }
  addEventListener("beforeprint", () => setPrinting(true));
  addEventListener("afterprint", () => setPrinting(false));

  if (matchMedia("(max-width: 68rem)").matches) document.querySelector("details.solvers")?.removeAttribute("open");
  setTheme(["light", "dark"].includes(stored()) ? stored() : "auto");
  Promise.all(plots(document).map(draw)).then(() => { root.dataset.drawn = "true"; });
})();
