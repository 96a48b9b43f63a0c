/** A disk of one megabyte for a test that needs a full one; only root can make it. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** `directory` must be there; it is another disk then. */
export function mountSmallDisk(directory: string): void {
  const options = ["-t", "tmpfs", "-o", "size=1m", "none", directory];
  execFileSync("mount", options, { stdio: "ignore" });
}

/** Also of a disk that somebody is still looking at. */
export function unmountSmallDisk(directory: string): void {
  execFileSync("umount", ["--lazy", directory]);
}

export function canMountSmallDisk(): boolean {
  const directory = mkdtempSync(join(tmpdir(), "selvedge-mount-"));
  try {
    mountSmallDisk(directory);
    unmountSmallDisk(directory);
    return true;
  } catch {
    return false;
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}
