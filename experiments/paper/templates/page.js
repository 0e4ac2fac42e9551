"use strict";
// What is hidden and which scale an axis has is kept in the buttons' aria-pressed; colours are the style sheet's.
(() => {
  const charts = JSON.parse(document.getElementById("charts").textContent);
  const root = document.documentElement;
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const plots = (within) => all(".plot[data-chart]", within);
  const press = (button, on) => button.setAttribute("aria-pressed", String(on));
  const axis = { exponentformat: "power", minexponent: 4, automargin: true, zeroline: false, showline: true, ticks: "outside", ticklen: 4 };
  const layout = {
    autosize: true, showlegend: false, hovermode: "closest", paper_bgcolor: "#0000", plot_bgcolor: "#0000",
    font: { family: "system-ui, sans-serif", size: 12 }, xaxis: axis, yaxis: axis,
    shapedefaults: { line: { width: 1, dash: "4px,3px" } },
    annotationdefaults: { xref: "paper", x: 1, xanchor: "left", xshift: 2, yanchor: "middle", showarrow: false },
  };

  function draw(plot) {
    const chart = structuredClone(charts[plot.dataset.chart]);
    const hidden = all('[data-key][aria-pressed="false"]', plot.closest("figure")).map((chip) => chip.dataset.key);
    for (const trace of chart.data) trace.visible = !hidden.includes(trace.meta);
    const dragmode = matchMedia("(pointer: coarse)").matches ? false : "zoom";
    return Plotly.newPlot(plot, chart.data, { ...chart.layout, dragmode, template: { layout } }, { displayModeBar: false, responsive: true });
  }

  // what is folded has no size: it is drawn when it is opened
  const drawn = (plot) => plot.data !== undefined;
  const drawVisible = () => plots().filter((plot) => !drawn(plot) && plot.checkVisibility()).map(draw);
  for (const details of all("details")) details.addEventListener("toggle", drawVisible);

  function show(chips, visible) {
    for (const chip of chips) {
      press(chip, visible);
      for (const plot of plots(chip.closest("figure")).filter(drawn)) {
        const places = plot.data.flatMap((trace, place) => (trace.meta === chip.dataset.key ? [place] : []));
        if (places.length) Plotly.restyle(plot, { visible }, places);
      }
    }
    for (const box of all("input[data-solver]")) {
      const shown = all(`button[data-solver="${box.dataset.solver}"]`).map((chip) => chip.ariaPressed === "true");
      box.checked = shown.includes(true);
      box.indeterminate = box.checked && shown.includes(false);
    }
  }

  function rescale(figure, { axis, type }) {
    all(`[data-axis="${axis}"]`, figure).forEach((button) => press(button, button.dataset.type === type));
    for (const plot of plots(figure).filter(drawn)) {
      const own = charts[plot.dataset.chart].layout[`${axis}axis`];
      const [dtick, tickmode] = type === own.type ? [own.dtick ?? null, own.tickmode ?? null] : [null, null];
      const ticks = { [`${axis}axis.dtick`]: dtick, [`${axis}axis.tickmode`]: tickmode ?? (dtick ? "linear" : "auto") };
      Plotly.relayout(plot, { [`${axis}axis.type`]: type, ...ticks, [`${axis}axis.autorange`]: true });
    }
  }

  for (const chip of all("[data-key]")) chip.onclick = () => show([chip], chip.ariaPressed !== "true");
  for (const button of all("[data-axis]")) button.onclick = () => rescale(button.closest("figure"), button.dataset);
  for (const button of all("[data-reset]")) {
    const figure = button.closest("figure");
    button.onclick = () => {
      show(all("[data-key]", figure), true);
      plots(figure).filter(drawn).forEach(draw);
      all("[data-axis]", figure).forEach((one) => press(one, one.dataset.atFirst === "true"));
    };
  }
  for (const box of all("input[data-solver]")) {
    box.onchange = () => show(all(`button[data-solver="${box.dataset.solver}"]`), box.checked);
  }
  for (const button of all("#show-all")) button.onclick = () => show(all("[data-key]"), true);

  // storage may be forbidden for a page from disk: then the choice lasts as long as the page
  const storage = (() => { try { return localStorage; } catch { return {}; } })();
  function setTheme(theme) {
    root.dataset.theme = storage.condgradTheme = theme;
    all("[data-theme-choice]").forEach((button) => press(button, button.dataset.themeChoice === theme));
  }
  for (const button of all("[data-theme-choice]")) button.onclick = () => setTheme(button.dataset.themeChoice);

  /** Paper is narrow, whatever the screen, charts do not follow by themselves, and nobody can unfold paper. */
  function setPrinting(on) {
    root.classList.toggle("printing", on);
    const folded = all(on ? "main details:not([open])" : "details.unfolded");
    folded.forEach((details) => { details.open = on; details.classList.toggle("unfolded", on); });
    drawVisible();
    for (const plot of plots().filter((one) => drawn(one) && one.checkVisibility())) {
      const size = on ? { width: plot.clientWidth, height: plot.clientHeight } : { width: null, height: null };
      Plotly.relayout(plot, { autosize: !on, ...size });
    }
  }
  addEventListener("beforeprint", () => setPrinting(true));
  addEventListener("afterprint", () => setPrinting(false));

  if (matchMedia("(max-width: 68rem)").matches) all("details.wide-open").forEach((details) => details.removeAttribute("open"));
  if (matchMedia("(max-width: 44rem)").matches) all("[data-folded-on-phones]").forEach((details) => details.removeAttribute("open"));
  setTheme(storage.condgradTheme ?? "auto");
  Promise.all(drawVisible()).then(() => { root.dataset.drawn = "true"; });
})();
