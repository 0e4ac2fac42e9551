"use strict";
(() => {
  const { styles, figures } = JSON.parse(document.getElementById("drawings").textContent);
  const root = document.documentElement;
  const night = matchMedia("(prefers-color-scheme: dark)");
  const touch = matchMedia("(pointer: coarse)").matches;
  const family = getComputedStyle(document.body).fontFamily;
  let printing = false;
  const probe = document.createElement("i");
  probe.hidden = true;
  document.body.append(probe);

  /** A colour of the style sheet as plotly understands it; asked once for each theme, for asking makes the browser lay out. */
  const known = new Map();
  const color = (name) => {
    if (!known.has(name)) {
      probe.style.color = `var(${name})`;
      known.set(name, getComputedStyle(probe).color);
    }
    return known.get(name);
  };
  const faded = (rgb, alpha) => rgb.replace("rgb(", "rgba(").replace(")", `, ${alpha})`);
  const plain = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;");

  // --- state: what is hidden and which axes were chosen, for each figure

  const states = new Map();
  for (const element of document.querySelectorAll("figure[data-figure]")) {
    const panels = figures[element.dataset.figure];
    states.set(element, { panels, hidden: new Set(), axes: { x: null, y: null }, resets: 0 });
  }
  const axisType = (state, panel, axis) => state.axes[axis] ?? (panel[axis === "x" ? "logX" : "logY"] ? "log" : "linear");

  // --- drawing

  /** The band between low and high as closed outlines, one for each stretch without a gap. */
  function band(line, panel, logY) {
    const outline = { x: [], y: [] };
    let stretch = [];
    const close = () => {
      const back = [...stretch].reverse();
      outline.x.push(...stretch.map((i) => line.x[i]), ...back.map((i) => line.x[i]), null);
      outline.y.push(...stretch.map((i) => line.high[i]), ...back.map((i) => low(i)), null);
      stretch = [];
    };
    const low = (i) => (logY ? Math.max(line.low[i], panel.floor) : line.low[i]);
    line.x.forEach((x, i) => {
      const gap = x === null || line.low[i] === null || line.high[i] === null || (logY && line.high[i] <= 0);
      if (!gap) stretch.push(i);
      else if (stretch.length) close();
    });
    if (stretch.length) close();
    return outline;
  }

  /** Where each axis begins and how long it is, from the lines that are shown; in decades where it is logarithmic. */
  function extent(state, panel, name) {
    const log = axisType(state, panel, name) === "log";
    let [least, most] = [Infinity, -Infinity];
    for (const line of panel.lines) {
      if (state.hidden.has(line.key)) continue;
      for (const value of line[name]) {
        if (value === null || (log && value <= 0)) continue;
        least = Math.min(least, value);
        most = Math.max(most, value);
      }
    }
    const place = log ? Math.log10 : (value) => value;
    const length = place(most) - place(least) || 1;
    const powers = log ? Math.floor(place(most)) - Math.ceil(place(least)) + 1 : 0;
    return { length, powers, at: (value) => (value === null || (log && value <= 0) ? NaN : (place(value) - place(least)) / length) };
  }

  /** The points that carry a marker: evenly along the line as it is seen, each solver's a little further on. */
  function marks(line, axes) {
    const chosen = { x: [], y: [] };
    let [from, distance] = [null, Object.keys(styles).indexOf(line.solver) * 0.012];
    if (line.x.length <= 8) distance = 0;
    line.x.forEach((x, i) => {
      const here = [1.4 * axes.x.at(x), axes.y.at(line.y[i])];
      if (!here.every(Number.isFinite)) return;
      from ??= here;
      if (Math.hypot(here[0] - from[0], here[1] - from[1]) < distance) return;
      chosen.x.push(x);
      chosen.y.push(line.y[i]);
      from = here;
      if (line.x.length > 8) distance = 0.17;
    });
    return chosen;
  }

  function traces(state, panel) {
    const logY = axisType(state, panel, "y") === "log";
    const axes = { x: extent(state, panel, "x"), y: extent(state, panel, "y") };
    const [bands, lines, markers] = [[], [], []];
    for (const line of panel.lines) {
      const visible = !state.hidden.has(line.key);
      const ink = color(`--line-${line.solver}`);
      const style = styles[line.solver];
      const shared = { type: "scatter", visible, showlegend: false, meta: line.solver };
      if (line.low) {
        bands.push({
          ...shared, ...band(line, panel, logY), mode: "lines", fill: "toself", fillcolor: faded(ink, 0.16),
          line: { width: 0, color: ink }, hoverinfo: "skip",
        });
      }
      lines.push({
        ...shared, x: line.x, y: line.y, mode: "lines", line: { color: ink, dash: style.dash, width: 2 },
        hovertemplate: `<b>${plain(line.label)}</b><br>${plain(panel.x)} %{x:.4~g}<br>${plain(panel.y)} %{y:.4~g}<extra></extra>`,
      });
      if (style.marker) {
        const size = style.marker === "star" ? 11 : 8;
        markers.push({
          ...shared, ...marks(line, axes), mode: "markers", hoverinfo: "skip",
          marker: { color: ink, symbol: style.marker, size, line: { width: 1, color: color("--card") } },
        });
      }
    }
    return [...bands, ...lines, ...markers];
  }

  function axis(state, panel, name) {
    const type = axisType(state, panel, name);
    return {
      type, automargin: true, zeroline: false, showline: true, linecolor: color("--axis"), gridcolor: color("--grid"),
      ticks: "outside", ticklen: 4, tickcolor: color("--axis"), exponentformat: "power", nticks: name === "x" ? 6 : 7,
      minexponent: 4, uirevision: `${type}${state.resets}`, title: name === "x" ? { text: plain(panel.x), standoff: 8 } : {},
      ...(type === "log" ? decades(extent(state, panel, name)) : {}),
    };
  }

  /** Whole powers of ten, about six of them; plotly writes them a quarter larger than other ticks. Where there are fewer
      than three, twos and fives as well: plotly takes them where there is a tick for about half a decade. */
  function decades({ length, powers }) {
    if (powers >= 3) return { dtick: Math.ceil(length / 7), tickfont: { size: 9.6 } };
    return length >= 1 ? { nticks: Math.round(length / 0.45), tickfont: { size: 11 } } : {};
  }

  function level(state, panel) {
    const log = axisType(state, panel, "y") === "log";
    if (panel.level === null || (log && panel.level <= 0)) return {};
    const ink = color("--muted");
    return {
      shapes: [{ type: "line", xref: "paper", x0: 0, x1: 1, y0: panel.level, y1: panel.level,
        line: { color: ink, width: 1, dash: "4px,3px" } }],
      annotations: [{ xref: "paper", x: 1, xanchor: "left", y: log ? Math.log10(panel.level) : panel.level, yanchor: "middle",
        text: panel.levelLabel, showarrow: false, xshift: 2, font: { size: 12, color: ink } }],
    };
  }

  function layout(state, panel, plot) {
    return {
      ...(printing ? { autosize: false, width: plot.clientWidth, height: plot.clientHeight } : { autosize: true }), margin: { l: 8, r: 10 + 7 * panel.levelLabel.length, t: 8, b: 8 }, showlegend: false,
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", hovermode: "closest", dragmode: touch ? false : "zoom",
      font: { family, size: 12, color: color("--ink") },
      hoverlabel: { bgcolor: color("--card"), bordercolor: color("--axis"), font: { color: color("--ink") } },
      uirevision: state.resets, xaxis: axis(state, panel, "x"), yaxis: axis(state, panel, "y"), ...level(state, panel),
    };
  }

  function draw(element) {
    const state = states.get(element);
    const drawn = [...element.querySelectorAll(".plot:not(.empty)")].map((plot) => {
      const panel = state.panels[Number(plot.dataset.panel)];
      return Plotly.react(plot, traces(state, panel), layout(state, panel, plot), { displayModeBar: false, responsive: true });
    });
    showState(element);
    return Promise.all(drawn);
  }

  const recolor = () => {
    known.clear();
    return drawAll();
  };
  const drawAll = () => Promise.all([...states.keys()].map(draw));

  // --- what the controls show

  function showState(element) {
    const state = states.get(element);
    for (const chip of element.querySelectorAll("[data-key]")) {
      chip.setAttribute("aria-pressed", String(!state.hidden.has(chip.dataset.key)));
    }
    const panels = state.panels.filter((panel) => panel.lines.length);
    for (const button of element.querySelectorAll("[data-axis]")) {
      const all = panels.every((panel) => axisType(state, panel, button.dataset.axis) === button.dataset.type);
      button.setAttribute("aria-pressed", String(all));
    }
  }

  function showBoxes() {
    for (const box of document.querySelectorAll("input[data-solver]")) {
      const chips = [...document.querySelectorAll(`button[data-solver="${box.dataset.solver}"]`)];
      const shown = chips.filter((chip) => chip.getAttribute("aria-pressed") === "true").length;
      box.checked = shown > 0;
      box.indeterminate = shown > 0 && shown < chips.length;
    }
  }

  // --- controls

  for (const [element, state] of states) {
    element.addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (!button) return;
      if (button.dataset.key) {
        if (!state.hidden.delete(button.dataset.key)) state.hidden.add(button.dataset.key);
      } else if (button.dataset.axis) {
        state.axes[button.dataset.axis] = button.dataset.type;
      } else if ("reset" in button.dataset) {
        state.hidden.clear();
        state.axes = { x: null, y: null };
        state.resets += 1;
      }
      draw(element);
      showBoxes();
    });
  }

  for (const box of document.querySelectorAll("input[data-solver]")) {
    box.addEventListener("change", () => {
      for (const [element, state] of states) {
        const chips = [...element.querySelectorAll(`button[data-solver="${box.dataset.solver}"]`)];
        for (const { dataset } of chips) state.hidden[box.checked ? "delete" : "add"](dataset.key);
        if (chips.length) draw(element);
      }
      showBoxes();
    });
  }

  document.getElementById("show-all")?.addEventListener("click", () => {
    for (const state of states.values()) state.hidden.clear();
    drawAll();
    showBoxes();
  });

  // --- theme

  /** Storage may be forbidden for a page from disk: then the choice lasts as long as the page. */
  const stored = {
    get: () => { try { return localStorage.getItem("condgrad-theme"); } catch { return null; } },
    set: (theme) => { try { localStorage.setItem("condgrad-theme", theme); } catch { /* not kept */ } },
  };

  function setTheme(theme) {
    root.dataset.theme = theme;
    for (const button of document.querySelectorAll("[data-theme-choice]")) {
      button.setAttribute("aria-pressed", String(button.dataset.themeChoice === theme));
    }
  }

  for (const button of document.querySelectorAll("[data-theme-choice]")) {
    button.addEventListener("click", () => {
      setTheme(button.dataset.themeChoice);
      stored.set(button.dataset.themeChoice);
      recolor();
    });
  }
  night.addEventListener("change", recolor);

  /** Paper is white and narrow, whatever the screen. */
  function setPrinting(on) {
    printing = on;
    root.classList.toggle("printing", on);
    recolor();
  }
  addEventListener("beforeprint", () => setPrinting(true));
  addEventListener("afterprint", () => setPrinting(false));

  if (matchMedia("(max-width: 68rem)").matches) document.querySelector("details.solvers")?.removeAttribute("open");
  setTheme(["light", "dark"].includes(stored.get()) ? stored.get() : "auto");
  drawAll().then(() => { root.dataset.drawn = "true"; });
})();
