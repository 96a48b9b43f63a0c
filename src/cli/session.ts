/**
 * What a verb works with: its surroundings, its output, and the cluster it was pointed at. The
 * connection is made on first use, so that verbs which need none run without a cluster.
 */
import type { Command } from "commander";
import { createHttp, type Http } from "../client/http.ts";
import type { Subject } from "./exit-codes.ts";
import type { Io } from "./io.ts";
import { createOutput, type Format, type Output } from "./output.ts";
import { type Connection, type ConnectionOptions, resolveConnection } from "./settings.ts";

export type GlobalOptions = ConnectionOptions & {
  readonly output: Format;
  readonly quiet?: boolean;
  readonly verbose?: boolean;
};

export type Session = {
  readonly io: Io;
  readonly output: Output;
  readonly options: GlobalOptions;
  connection(): Connection;
  http(): Http;
};

export function openSession(options: GlobalOptions, io: Io): Session {
  let connection: Connection | undefined;
  let http: Http | undefined;
  const connect = () => {
    connection ??= resolveConnection(options, io);
    return connection;
  };
  return {
    io,
    options,
    output: createOutput(io, options.output, options.quiet === true),
    connection: connect,
    http() {
      http ??= createHttp({ ...connect(), signal: io.signal });
      return http;
    },
  };
}

/**
 * What a verb does with its arguments as typed and its own options. Answers an exit code where it is
 * not the verb's own, but of what it has run.
 */
export type Work<Options> = (
  session: Session,
  args: readonly string[],
  options: Options,
) => Promise<number | undefined> | Promise<void>;

/** How a verb is added; `subject` decides what its failures' exit codes say. */
export type Registrar = {
  readonly program: Command;
  action<Options>(command: Command, subject: Subject, work: Work<Options>): void;
};
