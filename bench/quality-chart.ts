/** Line charts over time as SVG: one file, no script, readable in a browser and in a README. */

export type Series = {
  /** Left out: not in the legend. */
  readonly name?: string;
  /** Time in seconds, rising. A value holds until the next point. */
  readonly points: readonly (readonly [seconds: number, value: number])[];
  /** Such as what would be right, beside what is. */
  readonly isDashed?: boolean;
  /** Of the palette; series that belong together share it. */
  readonly color: number;
};

export type Chart = {
  readonly title: string;
  readonly subtitle: string;
  readonly yLabel: string;
  readonly series: readonly Series[];
};

const WIDTH = 960;
const HEIGHT = 420;
const PLOT = { left: 70, top: 64, right: 760, bottom: 366 };
/** Okabe and Ito's colours, which people with colour-blindness tell apart. */
const PALETTE = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"];
const LEGEND_STEP = 20;
const LEGEND_NAME_MAX = 20;

export function renderChart({ title, subtitle, yLabel, series }: Chart): string {
  const lastSeconds = Math.max(1, ...series.map(({ points }) => points.at(-1)?.[0] ?? 0));
  const highest = Math.max(1, ...series.flatMap(({ points }) => points.map(([, value]) => value)));
  const xTicks = ticks(lastSeconds, 8);
  const yTicks = ticks(highest, 6);
  const xMax = Math.max(lastSeconds, xTicks.at(-1) ?? 0);
  const yMax = Math.max(highest, yTicks.at(-1) ?? 0);
  const x = (seconds: number) => fixed(PLOT.left + ((PLOT.right - PLOT.left) * seconds) / xMax);
  const y = (value: number) => fixed(PLOT.bottom - ((PLOT.bottom - PLOT.top) * value) / yMax);
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${HEIGHT}" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="sans-serif" font-size="12">`,
    `<title>${escaped(title)}</title>`,
    `<rect width="${WIDTH}" height="${HEIGHT}" fill="#ffffff"/>`,
    text(PLOT.left, 26, title, 'font-size="17" font-weight="bold"'),
    text(PLOT.left, 46, subtitle, 'fill="#555555"'),
    ...yTicks.flatMap((tick) => [
      line(PLOT.left, y(tick), PLOT.right, y(tick), "#dddddd"),
      text(PLOT.left - 8, y(tick) + 4, label(tick), 'text-anchor="end"'),
    ]),
    ...xTicks.flatMap((tick) => [
      line(x(tick), PLOT.bottom, x(tick), PLOT.bottom + 5, "#333333"),
      text(x(tick), PLOT.bottom + 20, label(tick), 'text-anchor="middle"'),
    ]),
    line(PLOT.left, PLOT.bottom, PLOT.right, PLOT.bottom, "#333333"),
    line(PLOT.left, PLOT.top, PLOT.left, PLOT.bottom, "#333333"),
    text((PLOT.left + PLOT.right) / 2, HEIGHT - 12, "time (s)", 'text-anchor="middle"'),
    `<text transform="translate(20 ${(PLOT.top + PLOT.bottom) / 2}) rotate(-90)" text-anchor="middle">${escaped(yLabel)}</text>`,
    ...series.map(({ points, ...style }) => {
      const path = points.map(([seconds, value]) => `${x(seconds)},${y(value)}`).join(" ");
      return `<polyline points="${path}" fill="none" ${stroke(style)}/>`;
    }),
    ...series.filter(({ name }) => name !== undefined).flatMap(legend),
    "</svg>",
    "",
  ].join("\n");
}

function legend({ name = "", ...style }: Series, index: number): string[] {
  const middle = PLOT.top + 8 + index * LEGEND_STEP;
  const left = PLOT.right + 20;
  const short =
    name.length > LEGEND_NAME_MAX ? `…${name.slice(name.length - LEGEND_NAME_MAX + 1)}` : name;
  return [
    `<line x1="${left}" y1="${middle}" x2="${left + 26}" y2="${middle}" ${stroke(style)}/>`,
    text(left + 34, middle + 4, short),
  ];
}

function stroke({ color, isDashed }: Pick<Series, "color" | "isDashed">): string {
  const paint = `stroke="${PALETTE[color % PALETTE.length]}"`;
  return isDashed
    ? `${paint} stroke-width="1.5" stroke-dasharray="6 4"`
    : `${paint} stroke-width="2"`;
}

function line(x1: number, y1: number, x2: number, y2: number, color: string): string {
  return `<line x1="${x1}" y1="${y1}" x2="${x2}" y2="${y2}" stroke="${color}"/>`;
}

function text(x: number, y: number, content: string, attributes = ""): string {
  return `<text x="${x}" y="${y}" ${attributes}>${escaped(content)}</text>`;
}

/** From 0 in steps of 1, 2 or 5 times a power of ten, up to the first at or above `most`. */
function ticks(most: number, about: number): number[] {
  const rough = most / about;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = ([1, 2, 5].find((factor) => factor * power >= rough) ?? 10) * power;
  return Array.from({ length: Math.ceil(most / step - 1e-9) + 1 }, (_, index) => index * step);
}

function label(value: number): string {
  return Number(value.toPrecision(6)).toLocaleString("en-US");
}

function fixed(value: number): number {
  return Number(value.toFixed(1));
}

function escaped(content: string): string {
  return content.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
}
