/** A container that runs, as streams into it see it. */
import type { ContainerId } from "../../shared/ids.ts";
import type { ContainerExecutor } from "../container-runtime.ts";
import type { ProcessIdentity } from "../process-table.ts";
import type { ContainerCgroup } from "../state-store.ts";

export type ContainerInterior = {
  readonly containerId: ContainerId;
  readonly user: string;
  readonly run: number;
  /** The leader of its processes. */
  readonly identity: ProcessIdentity;
  readonly workDirectory: string;
  readonly cgroup: ContainerCgroup | undefined;
  readonly executor: ContainerExecutor;
};
