#!/usr/bin/env node
// The `selvedge` command's door: plain JavaScript that any Node.js from 20 on can read. The command
// itself is TypeScript that Node.js runs directly since 22.18; an older one hands over to the Node.js
// in this project's node_modules, with its arguments, streams, signals and exit code.
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);

if (major > 22 || (major === 22 && minor >= 18)) {
  try {
    const { run } = await import("../src/cli/process.ts");
    await run(process.argv.slice(2));
  } catch (error) {
    if (
      !["ERR_UNSUPPORTED_NODE_MODULES_TYPE_STRIPPING", "ERR_MODULE_NOT_FOUND"].includes(error?.code)
    ) {
      throw error;
    }
    stop(
      `this installation is not complete (${error.message}); run it from a checkout after \`npm ci\``,
    );
  }
} else {
  const node = fileURLToPath(new URL("../node_modules/node/bin/node", import.meta.url));
  if (existsSync(node)) handOver(node);
  else stop(`selvedge needs Node.js 22.18 or newer, and this is ${process.versions.node}`);
}

function handOver(node) {
  const child = spawn(node, process.argv.slice(1), { stdio: "inherit" });
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"])
    process.on(signal, () => child.kill(signal));
  child.on("error", (error) => stop(`cannot run ${node}: ${error.message}`));
  child.on("exit", (code, signal) => {
    if (signal === null) process.exit(code ?? 1);
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  });
}

function stop(sentence) {
  process.stderr.write(`error: ${sentence}\n`);
  process.exit(1);
}
