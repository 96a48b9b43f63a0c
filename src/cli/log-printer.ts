/**
 * Puts the logs of several containers on one stdout without mixing their lines: a line is printed
 * when it is whole, or when its log ends. For json and yaml every line is one document.
 */
import type { ContainerView } from "../shared/service.ts";
import type { LogTaker } from "./log-reader.ts";
import { formatBytes, logLine, type Style, wantsColour } from "./output.ts";
import type { Session } from "./session.ts";
import { SinceFilter } from "./since-filter.ts";

/** Whose log it is. */
export type LogOrigin = Pick<ContainerView, "id" | "component_instance_name">;

export type LogPrinter = {
  /** Takes the container's log; what is missing of it is said on stderr. */
  takerFor(container: LogOrigin): LogTaker;
  /** Nothing more comes from this container. */
  end(container: LogOrigin): void;
  /** Nothing more comes at all. */
  close(): void;
};

const PALETTE: readonly Style[] = ["cyan", "yellow", "green", "magenta", "blue", "red"];
/** A log without line ends is printed in pieces of this many characters. */
const LINE_CHARACTERS_MAX = 65_536;

export type LogPrinterOptions = {
  /** With the instance in front of each line. */
  readonly isPrefixed: boolean;
  /** Only lines that it finds. */
  readonly grep?: RegExp | undefined;
  /** Epoch ms: only lines since then. */
  readonly sinceMs?: number | undefined;
};

/** `instances` only decides how wide the prefix is; others may come later. */
export function createLogPrinter(
  session: Session,
  instances: readonly string[],
  { isPrefixed, grep, sinceMs }: LogPrinterOptions,
): LogPrinter {
  const { output, io } = session;
  const width = Math.max(0, ...instances.map((instance) => instance.length));
  const coloured = wantsColour(io.stdout, io.env) && output.format === "table";
  const since = sinceMs === undefined ? undefined : new SinceFilter(sinceMs);
  const styles = new Map<string, Style>();
  const rests = new Map<string, { readonly container: LogOrigin; text: string }>();

  const prefix = (instance: string) => {
    const style = styles.get(instance) ?? PALETTE[styles.size % PALETTE.length] ?? "cyan";
    styles.set(instance, style);
    return output.paint(style, `${instance.padEnd(width)} |`);
  };
  const print = (container: LogOrigin, line: string) => {
    const isWanted = since?.isWanted(container.id, line, Date.now()) ?? true;
    if (!isWanted || (grep !== undefined && !grep.test(line))) return;
    const instance = container.component_instance_name;
    output.stream({ instance, containerId: container.id, line }, () => {
      const text = logLine(line.replace(/\r$/, ""), coloured);
      return isPrefixed ? `${prefix(instance)} ${text}`.trimEnd() : text;
    });
  };
  const flush = (container: LogOrigin) => {
    const rest = rests.get(container.id);
    rests.delete(container.id);
    if (rest !== undefined && rest.text !== "") print(container, rest.text);
  };

  const add = (container: LogOrigin, text: string) => {
    const rest = rests.get(container.id) ?? { container, text: "" };
    const lines = (rest.text + text).split("\n");
    rest.text = lines.pop() ?? "";
    for (const line of lines) print(container, line);
    if (rest.text.length > LINE_CHARACTERS_MAX) {
      print(container, rest.text);
      rest.text = "";
    }
    rests.set(container.id, rest);
  };

  return {
    takerFor: (container) => ({
      text: (text) => add(container, text),
      dropped(bytes) {
        flush(container);
        const { component_instance_name: instance } = container;
        output.note(`${instance}: ${formatBytes(bytes)} dropped by rotation`);
      },
    }),
    end(container) {
      flush(container);
      const doubt = since?.doubt(container.id);
      if (doubt !== undefined) output.note(`${container.component_instance_name}: ${doubt}`);
    },
    close() {
      for (const { container } of [...rests.values()]) this.end(container);
    },
  };
}
