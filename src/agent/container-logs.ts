/**
 * What a node knows of its containers' logs beside the files themselves: where what is kept of each
 * begins (log-rotation.ts), and how long each was at which time (log-times.ts).
 */
import type { ContainerId } from "../shared/ids.ts";
import type { AgentHome } from "./agent-home.ts";
import { type KeptFrom, LogRotation, type LogRotationOptions } from "./log-rotation.ts";
import { LogTimes } from "./log-times.ts";

export type ContainerLogsOptions = LogRotationOptions & { readonly nowMs: () => number };

export class ContainerLogs {
  readonly home: AgentHome;
  readonly #rotation: LogRotation;
  readonly #times: LogTimes;

  private constructor(home: AgentHome, rotation: LogRotation, times: LogTimes) {
    this.home = home;
    this.#rotation = rotation;
    this.#times = times;
  }

  static async open({ nowMs, ...options }: ContainerLogsOptions): Promise<ContainerLogs> {
    const { home } = options;
    return new ContainerLogs(home, await LogRotation.open(options), new LogTimes(home, nowMs));
  }

  get keptFrom(): KeptFrom {
    return this.#rotation.keptFrom;
  }

  /** Bytes before the answered offset were written before `sinceMs` (epoch ms); 0: nobody knows. */
  writtenBefore(containerId: ContainerId, file: string, sinceMs: number): number {
    return this.#times.writtenBefore(containerId, file, sinceMs);
  }

  /** One round for a running container. Never rejects. */
  async look(containerId: ContainerId): Promise<void> {
    await this.#times.look(containerId);
    await this.#rotation.rotate(containerId);
  }

  /** Forgets logs that are gone. */
  async forgetRemoved(): Promise<void> {
    this.#times.forgetRemoved();
    await this.#rotation.forgetRemoved();
  }

  /** Resolves when nothing is being written any more. */
  close(): Promise<void> {
    return this.#rotation.close();
  }
}
