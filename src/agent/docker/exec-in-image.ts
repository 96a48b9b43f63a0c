/**
 * A program run in an engine's container beside its own: by the engine's client, which puts it into
 * the same namespaces, limits and rights. Secrets are in no argument: the client passes variables on
 * by their names, under which they do nothing to the client itself.
 */
import {
  EXEC_MARK,
  type ExecCommand,
  type ExecRequest,
  hiddenEnvironment,
  runWords,
} from "../exec-command.ts";
import type { DockerCli } from "./docker-cli.ts";

/** What runs launch scripts, and tells that the image has a shell. */
const SHELL = "/bin/sh";

/**
 * `path`: what the container runs. An image with an entry point of its own may have no shell, and has
 * its environment from its creation; any other gets it as its launch script says.
 */
export function execInImage(
  { command: client, globalArguments, environment }: DockerCli,
  name: string,
  request: ExecRequest,
  path: string,
): ExecCommand {
  const { workDirectory, stdin, isTerminal, command, mark } = request;
  const hasShell = path === SHELL;
  const passed = hasShell ? hiddenEnvironment(request) : { [EXEC_MARK]: mark };
  const term = request.environment["TERM"];
  const options = [
    ...(stdin ? ["--interactive"] : []),
    ...(isTerminal ? ["--tty"] : []),
    ...(hasShell ? [] : ["--workdir", workDirectory]),
    ...(isTerminal && term !== undefined ? ["--env", `TERM=${term}`] : []),
    ...Object.keys(passed).flatMap((variable) => ["--env", variable]),
  ];
  const words = hasShell ? runWords(request) : command;
  return {
    words: [client, ...globalArguments, "exec", ...options, name, ...words],
    environment: { ...environment, ...passed },
  };
}
