/**
 * Commands of the operating system that some tests need. `npm test` installs what is missing where
 * it may (root on Debian); elsewhere it says what would, and the tests that need it are skipped
 * through `isAvailable`. With CI=true nothing is skipped: a command that is missing is a failure.
 */
import { accessSync, constants, existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import { run } from "./run.ts";

export type Prerequisite = {
  readonly command: string;
  readonly debianPackage: string;
  readonly usedBy: string;
};

export const PREREQUISITES: readonly Prerequisite[] = [
  { command: "busybox", debianPackage: "busybox-static", usedBy: "the images of podman's tests" },
  { command: "curl", debianPackage: "curl", usedBy: "the README's and the examples' commands" },
  { command: "dig", debianPackage: "bind9-dnsutils", usedBy: "the tests of DNS" },
  { command: "kdig", debianPackage: "knot-dnsutils", usedBy: "the tests of DNS" },
  { command: "openssl", debianPackage: "openssl", usedBy: "the tests of DNS over HTTPS" },
  { command: "podman", debianPackage: "podman", usedBy: "the tests of container images" },
  { command: "runc", debianPackage: "runc", usedBy: "podman, instead of crun" },
  { command: "script", debianPackage: "bsdutils", usedBy: "the tests of shells in containers" },
];

export function isAvailable(command: string): boolean {
  return (process.env["PATH"] ?? "").split(delimiter).some((folder) => {
    try {
      accessSync(join(folder, command), constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

/** Answers what is still missing afterwards. */
export async function installPrerequisites(): Promise<readonly Prerequisite[]> {
  const missing = PREREQUISITES.filter(({ command }) => !isAvailable(command));
  if (missing.length === 0 || !mayInstall()) return missing;
  const packages = missing.map(({ debianPackage }) => debianPackage);
  console.log(`installing from Debian: ${packages.join(" ")}`);
  const environment = { DEBIAN_FRONTEND: "noninteractive" };
  const install = ["install", "-y", "-qq", "--no-install-recommends", ...packages];
  // A fresh image has no package lists yet.
  if ((await run("apt-get", install, { capture: true, environment })).code !== 0) {
    await run("apt-get", ["update", "-qq"], { capture: true, environment });
    const { code, output } = await run("apt-get", install, { capture: true, environment });
    if (code !== 0) console.error(output);
  }
  return missing.filter(({ command }) => !isAvailable(command));
}

/** The command that installs it, for a person. */
export function installCommand(missing: readonly Prerequisite[]): string {
  return `apt-get install ${missing.map(({ debianPackage }) => debianPackage).join(" ")}`;
}

function mayInstall(): boolean {
  return process.getuid?.() === 0 && existsSync("/etc/debian_version") && isAvailable("apt-get");
}
