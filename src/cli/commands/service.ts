/**
 * `selvedge service …`: the YARN Service API's verbs. A change is sent once; `--wait` then watches
 * until the service is what was asked for, and the exit code says whether it is.
 */
import type { Command } from "commander";
import { confirm, lifetime, parseFlex, refuseUnknown, wholeNumber } from "../arguments.ts";
import { cliError, usageError } from "../errors.ts";
import { EXIT_CODE } from "../exit-codes.ts";
import { formatTable, styleOfState } from "../output.ts";
import { eventLine } from "../progress.ts";
import { formatService } from "../service-text.ts";
import type { Registrar, Session } from "../session.ts";
import { flexed, GONE, STABLE, STOPPED } from "../wait.ts";
import { readYarnfile } from "../yarnfile.ts";
import { change, clientOf, finishWait, type WaitFlags, withWait } from "./service-change.ts";
import { registerLogs } from "./service-logs.ts";
import { registerPlan } from "./service-plan.ts";
import { registerUpgrade } from "./service-upgrade.ts";

type LaunchOptions = WaitFlags & {
  readonly name?: string;
  readonly lifetime?: number;
  readonly queue?: string;
  readonly save?: boolean;
};

export function registerService(registrar: Registrar): void {
  const group = registrar.program.command("service").description("run and watch services");
  registerLaunch(registrar, group);
  registerPlan(registrar, group);
  registerReads(registrar, group);
  registerChanges(registrar, group);
  registerUpgrade(registrar, group);
  registerDestroy(registrar, group);
  registerLogs(registrar, group);
}

function registerLaunch(registrar: Registrar, group: Command): void {
  const command = withWait(
    group
      .command("launch")
      .summary("start a service from a Yarnfile")
      .description(
        "start a service from a Yarnfile, JSON or YAML; `-` reads standard input.\n" +
          "`launch NAME FILE` names it as `yarn app -launch` does.",
      )
      .argument("<file>", "the Yarnfile; or the name, when a file follows")
      .argument("[file]", "the Yarnfile, after a name")
      .option("--name <name>", "name of the service, instead of the file's")
      .option("--lifetime <seconds>", "stop and remove it after so long; -1: never", lifetime)
      .option("--queue <queue>", "queue, instead of the file's")
      .option("--save", "save it without starting it"),
    "it is STABLE, or finished if it is meant to end",
  );
  registrar.action<LaunchOptions>(command, "service", launch);
}

async function launch(session: Session, args: readonly string[], options: LaunchOptions) {
  const [first = "", second] = args;
  const file = second ?? first;
  const name = second === undefined ? options.name : first;
  if (second !== undefined && options.name !== undefined && options.name !== first) {
    throw usageError(`two names are given: ${first} and ${options.name}`);
  }
  if (options.save && options.wait) {
    throw usageError("--save and --wait do not go together", "a saved service is not started");
  }
  const state = options.save ? ("STOPPED" as const) : undefined;
  const overrides = { name, lifetime: options.lifetime, queue: options.queue, state };
  const yarnfile = await readYarnfile(file, overrides, session.io);
  const status = await clientOf(session).create(yarnfile.body);
  const launched = yarnfile.name ?? decodeURIComponent(status.uri?.split("/").at(-1) ?? "");
  const applicationId = status.id;
  if (options.wait && applicationId !== undefined) {
    return finishWait(session, launched, STABLE, options, []);
  }
  session.output.result(status, () =>
    session.output.quiet
      ? launched
      : applicationId === undefined
        ? `service ${launched} is saved; \`selvedge service start ${launched}\` starts it`
        : `service ${launched} is launched as ${applicationId}`,
  );
}

function registerReads(registrar: Registrar, group: Command): void {
  const list = group
    .command("list")
    .description("list services")
    .option("--state <state>", "only those in this state, such as STABLE")
    .option("--version <version>", "only those of this version")
    .option("--component <name>", "only those with a component of this name");
  type ListOptions = { state?: string; version?: string; component?: string };
  registrar.action<ListOptions>(list, "service", async (session, _args, options) => {
    const { output } = session;
    const filter = { ...options, state: options.state?.toUpperCase() };
    const services = await clientOf(session).list(filter);
    output.result(services, () => {
      if (output.quiet) return services.map(({ name }) => name).join("\n");
      if (services.length === 0) return "no services";
      return formatTable(
        ["NAME", "VERSION", "STATE", "USER", "APPLICATION"],
        services.map((service) => [
          service.name,
          service.version,
          output.paint(styleOfState(service.state), service.state),
          service.user,
          service.id ?? "",
        ]),
      );
    });
  });

  const status = group
    .command("status")
    .description("show a service: why it is as it is, its components, its containers")
    .argument("<name>", "name of the service");
  registrar.action(status, "service", async (session, [name = ""]) => {
    const view = await clientOf(session).get(name);
    session.output.result(view, () =>
      session.output.quiet ? view.state : formatService(view, session.output, Date.now()),
    );
  });

  const events = group
    .command("events")
    .description("show what happened to a service, oldest first")
    .argument("<name>", "name of the service")
    .option("--tail <n>", "only the last n", wholeNumber(0));
  type EventsOptions = { tail?: number };
  registrar.action<EventsOptions>(events, "service", async (session, [name = ""], { tail }) => {
    const all = await clientOf(session).events(name);
    const shown = tail === undefined ? all : all.slice(Math.max(0, all.length - tail));
    session.output.result(shown, () => shown.map(eventLine).join("\n"));
  });
}

function registerChanges(registrar: Registrar, group: Command): void {
  const flex = withWait(
    group
      .command("flex")
      .description("change how many containers components have: all of the changes, or none")
      .argument("<name>", "name of the service")
      .argument("<changes...>", "COMPONENT=N, COMPONENT=+N or COMPONENT=-N"),
    "all containers are ready",
  );
  registrar.action<WaitFlags>(flex, "service", async (session, [name = "", ...texts], options) => {
    const changes = texts.map(parseFlex);
    const components = changes.map(({ component }) => component);
    const client = clientOf(session);
    const known = (await client.get(name)).components.map((component) => component.name);
    refuseUnknown(name, "component", components, known);
    await change(session, name, options, flexed(components), "flexes", () =>
      client.flex(name, changes),
    );
  });

  const stop = withWait(
    group
      .command("stop")
      .description("stop a service; it stays known and can be started again")
      .argument("<name>", "name of the service"),
    "its containers have ended",
  );
  registrar.action<WaitFlags>(stop, "service", async (session, [name = ""], options) => {
    await change(session, name, options, STOPPED, "stops", () => clientOf(session).stop(name));
  });

  const start = withWait(
    group
      .command("start")
      .description("start a stopped or saved service")
      .argument("<name>", "name of the service"),
    "it is STABLE, or finished if it is meant to end",
  );
  registrar.action<WaitFlags>(start, "service", async (session, [name = ""], options) => {
    await change(session, name, options, STABLE, "starts", () => clientOf(session).start(name));
  });
}

function registerDestroy(registrar: Registrar, group: Command): void {
  const destroy = withWait(
    group
      .command("destroy")
      .description("stop a service and forget it, its definition included")
      .argument("<name>", "name of the service")
      .option("-y, --yes", "do not ask"),
    "it is gone",
  );
  type DestroyOptions = WaitFlags & { yes?: boolean };
  registrar.action<DestroyOptions>(destroy, "service", async (session, [name = ""], options) => {
    if (!options.yes) await askToDestroy(session, name);
    await change(session, name, options, GONE, "is destroyed", () =>
      clientOf(session).destroy(name),
    );
  });
}

async function askToDestroy(session: Session, name: string): Promise<void> {
  const { io } = session;
  if (io.stdin.isTTY !== true || io.stderr.isTTY !== true) {
    throw usageError(
      `service ${name} is not destroyed: nobody can be asked, and --yes is not given`,
      `\`selvedge service destroy ${name} --yes\``,
    );
  }
  const { url, cluster, source } = session.connection();
  const where = `${url}${cluster === undefined ? "" : `, cluster ${cluster}`} (${source})`;
  if (await confirm(`Destroy service ${name} and its definition at ${where}?`, io)) return;
  throw cliError(EXIT_CODE.OTHER, "FAILED_PRECONDITION", `service ${name} is not destroyed`);
}
