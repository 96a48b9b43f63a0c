/**
 * Removes log directories of containers that the node has forgotten, when nothing was written to
 * them for `yarn.nodemanager.log.retain-seconds` (10,800 by default).
 */
import { readdir, rm, rmdir, stat } from "node:fs/promises";
import { join } from "node:path";
import type { ContainerId } from "../shared/ids.ts";
import type { AgentHome } from "./agent-home.ts";

export const LOG_RETENTION_MS = 10_800_000;

/** Sweeps once. `isKnown` containers are kept whatever their age. */
export async function sweepLogs(
  home: AgentHome,
  isKnown: (containerId: ContainerId) => boolean,
  nowMs: number,
  retentionMs: number,
): Promise<void> {
  for (const logs of home.logDirectories) {
    for (const applicationId of await readdir(logs)) {
      const application = join(logs, applicationId);
      for (const containerId of await readdir(application)) {
        const directory = join(application, containerId);
        if (isKnown(containerId)) continue;
        if (nowMs - (await lastWrittenMs(directory)) < retentionMs) continue;
        await rm(directory, { recursive: true, force: true });
      }
      // Fails, rightly, as long as another container's logs are inside.
      await rmdir(application).catch(() => undefined);
    }
  }
}

async function lastWrittenMs(directory: string): Promise<number> {
  let latestMs = (await stat(directory)).mtimeMs;
  for (const name of await readdir(directory)) {
    latestMs = Math.max(latestMs, (await stat(join(directory, name))).mtimeMs);
  }
  return latestMs;
}
