/**
 * One exec: a process and the stream to who runs it. The exit code is the stream's last word. A stream
 * that is cut before ends the process with all it has started; what a program leaves in the background
 * when it ends by itself stays, and ends with the container.
 */
import { readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import type { ContentFrame, StreamConnection } from "../../client/stream-connection.ts";
import { EXEC_MARK } from "../exec-command.ts";
import { messageOf } from "../log.ts";
import {
  isRecycled,
  type ProcessIdentity,
  type ProcessStat,
  processTree,
  readProcesses,
  readStat,
} from "../process-table.ts";
import type { ExecProcess } from "./exec-process.ts";

/** Between SIGHUP and SIGKILL, when the stream is cut. */
const HANGUP_GRACE_MS = 1_000;

export class ExecSession {
  readonly #connection: StreamConnection;
  readonly #process: ExecProcess;
  readonly #identity: ProcessIdentity;
  readonly #mark: string;
  #hasEnded = false;

  /** `mark`: what `ExecRequest.mark` was. */
  constructor(connection: StreamConnection, process: ExecProcess, mark: string) {
    this.#connection = connection;
    this.#process = process;
    this.#mark = mark;
    const { pid } = process;
    this.#identity = { pid, startTicks: readStat(pid)?.startTicks ?? 0, bootId: "" };
    void this.#run();
  }

  frame(frame: ContentFrame, consumed: () => void): void {
    if (frame.kind === "stdin") {
      this.#process.write(frame.bytes, consumed);
      return;
    }
    if (frame.kind === "eof") this.#process.endInput();
    if (frame.kind === "resize") this.#process.resize(frame.columns, frame.rows);
    consumed();
  }

  /** Resolves when nothing of it is left. */
  async closed(): Promise<void> {
    if (this.#hasEnded) return;
    // What it still writes is for nobody, and must not hold it up.
    for (const [, output] of this.#process.outputs) output.resume();
    this.#signal("SIGHUP");
    await delay(HANGUP_GRACE_MS);
    this.#signal("SIGKILL");
  }

  async #run(): Promise<void> {
    const { exited, outputs } = this.#process;
    // An output that somebody else still has is let go without its end.
    const sent = outputs.map(([kind, output]) =>
      this.#connection.sendAll(kind, output).catch(() => false),
    );
    try {
      const exitCode = await exited;
      await Promise.all(sent);
      this.#hasEnded = true;
      await this.#connection.send({ kind: "exit", exitCode });
    } catch (error) {
      this.#hasEnded = true;
      const bytes = Buffer.from(`the program cannot be started: ${messageOf(error)}`);
      await this.#connection.send({ kind: "error", bytes });
    }
    await this.#connection.finish();
  }

  /** To its whole session, to what an engine has started for it, and to their descendants. */
  #signal(signal: NodeJS.Signals): void {
    const { pid } = this.#identity;
    if (pid === 0) return;
    const processes = readProcesses();
    const leaders = processes.filter((each) => isMarked(each, this.#mark));
    const own = isRecycled(this.#identity) ? [] : processTree(this.#identity, processes);
    const all = [...own, ...leaders.flatMap((each) => treeOf(each, processes))];
    for (const each of new Set(all)) {
      try {
        process.kill(each.pid, signal);
      } catch {
        // It has ended by itself in between.
      }
    }
  }
}

function treeOf(leader: ProcessStat, processes: readonly ProcessStat[]): ProcessStat[] {
  return [leader, ...processTree({ ...leader, bootId: "" }, processes)];
}

function isMarked({ pid }: ProcessStat, mark: string): boolean {
  try {
    return readFileSync(`/proc/${pid}/environ`, "utf8").includes(`${EXEC_MARK}=${mark}\0`);
  } catch {
    return false;
  }
}
