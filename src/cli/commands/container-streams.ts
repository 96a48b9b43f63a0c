/**
 * `selvedge container exec`, `shell` and `forward`: into a container, wherever its node is. As
 * `yarn container -shell`.
 */
import type { Command } from "commander";
import { containerStreamsClient } from "../../client/container-streams.ts";
import { servicesClient } from "../../client/services.ts";
import { isContainerId } from "../../shared/ids.ts";
import { cliError, formatError, reportOf, usageError } from "../errors.ts";
import { EXIT_CODE } from "../exit-codes.ts";
import { wishToEnd } from "../io.ts";
import type { Registrar, Session } from "../session.ts";
import { runExec } from "../streams/exec.ts";
import {
  type ForwardedPort,
  forwardPort,
  type PortPair,
  parsePortPair,
} from "../streams/forward.ts";

const CONTAINER = "container id, or SERVICE/INSTANCE such as web/web-0";
/** What most people want, and what every machine has. */
const ANY_SHELL = ["sh", "-c", "command -v bash > /dev/null && exec bash; exec sh"];

export function registerContainerStreams(registrar: Registrar, group: Command): void {
  registerExec(registrar, group);
  registerShell(registrar, group);
  registerForward(registrar, group);
}

type ExecOptions = { readonly interactive?: true; readonly tty?: true };

function registerExec(registrar: Registrar, group: Command): void {
  const exec = group
    .command("exec")
    .summary("run a program in a container")
    .description(
      "run a program in a container, beside its own: same user, directory, environment and limits.\n" +
        "The exit code is the program's. Without -t, Ctrl-C ends it; whatever ends this command ends it.",
    )
    .argument("<container>", CONTAINER)
    .argument("<command...>", "the program and its arguments, after --")
    .option("-i, --interactive", "hand on standard input")
    .option("-t, --tty", "in a terminal")
    .addHelpText("after", "\nExample:\n  selvedge container exec web/web-0 -- ls -l\n");
  registrar.action<ExecOptions>(exec, "other", async (session, args, options) => {
    const [target = "", ...command] = args;
    const { interactive = false, tty: terminal = false } = options;
    return run(session, target, { command, interactive, terminal });
  });
}

function registerShell(registrar: Registrar, group: Command): void {
  const shell = group
    .command("shell")
    .description("a shell in a container, in a terminal: bash, or sh where there is none")
    .argument("<container>", CONTAINER)
    .argument("[shell]", "which one: bash or sh");
  registrar.action(shell, "other", async (session, [target = "", name]) => {
    if (name !== undefined && name !== "bash" && name !== "sh") {
      throw usageError(`there is no shell ${JSON.stringify(name)}`, "there are bash and sh");
    }
    const command = name === undefined ? ANY_SHELL : [name];
    return run(session, target, { command, interactive: true, terminal: true });
  });
}

function registerForward(registrar: Registrar, group: Command): void {
  const forward = group
    .command("forward")
    .summary("connect ports of this machine to ports of a container")
    .description(
      "connect ports of this machine (127.0.0.1) to TCP ports that a container listens on, until Ctrl-C",
    )
    .argument("<container>", CONTAINER)
    .argument("<ports...>", "LOCAL:REMOTE, PORT for the same at both ends, :REMOTE for a free one");
  registrar.action(forward, "other", async (session, [target = "", ...ports]) => {
    const pairs = ports.map(portPair);
    const containerId = await containerOf(session, target);
    const client = containerStreamsClient({ ...session.connection(), signal: session.io.signal });
    const open: ForwardedPort[] = [];
    const failed = (error: unknown) => {
      if (!session.io.signal.aborted) session.output.note(sentenceOf(error));
    };
    try {
      for (const pair of pairs) {
        const forwarded = await listen(pair, () =>
          forwardPort({ client, containerId, pair, failed }),
        );
        open.push(forwarded);
        tell(session, containerId, pair, forwarded);
      }
      await wishToEnd(session.io.signal);
    } finally {
      await Promise.all(open.map((each) => each.close()));
    }
  });
}

function tell(
  { output }: Session,
  containerId: string,
  { remote }: PortPair,
  { port }: ForwardedPort,
): void {
  const listening = `127.0.0.1:${port}`;
  output.stream({ listening, port, containerId, remotePort: remote }, () =>
    output.quiet ? listening : `${listening} is port ${remote} of ${containerId}`,
  );
}

async function run(
  session: Session,
  target: string,
  what: {
    readonly command: readonly string[];
    readonly interactive: boolean;
    readonly terminal: boolean;
  },
): Promise<number> {
  const containerId = await containerOf(session, target);
  const client = containerStreamsClient({ ...session.connection(), signal: session.io.signal });
  return runExec(client, session.io, { containerId, ...what });
}

/** The container of an instance, as it is now. */
async function containerOf(session: Session, target: string): Promise<string> {
  if (isContainerId(target)) return target;
  const [service = "", instance, ...more] = target.split("/");
  if (instance === undefined || more.length > 0) {
    throw usageError(
      `${JSON.stringify(target)} names no container`,
      "name it by its id, or as SERVICE/INSTANCE, such as web/web-0",
    );
  }
  const { user } = session.connection();
  const { components } = await servicesClient(session.http(), user).get(service);
  const containers = components.flatMap((component) => component.containers);
  const found = containers.find((each) => each.component_instance_name === instance);
  if (found) return found.id;
  const names = containers.map((each) => each.component_instance_name);
  throw cliError(
    EXIT_CODE.NOT_FOUND,
    "NOT_FOUND",
    `service ${service} has no container for an instance ${instance}`,
    names.length === 0 ? "it has no containers" : `it has ${names.slice(0, 10).join(", ")}`,
  );
}

function portPair(text: string): PortPair {
  const pair = parsePortPair(text);
  if (pair) return pair;
  throw usageError(
    `${JSON.stringify(text)} is no pair of ports`,
    "write LOCAL:REMOTE, such as 8080:80; PORT; or :REMOTE",
  );
}

async function listen(
  { local }: PortPair,
  open: () => Promise<ForwardedPort>,
): Promise<ForwardedPort> {
  try {
    return await open();
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const why = code === "EADDRINUSE" ? "is taken by another program" : `cannot be had: ${code}`;
    throw cliError(
      EXIT_CODE.INVALID_ARGUMENT,
      "FAILED_PRECONDITION",
      `port ${local} of this machine ${why}`,
      "choose another one, or :REMOTE for one that is free",
    );
  }
}

function sentenceOf(error: unknown): string {
  return formatError(reportOf(error, "other"), false);
}
