/**
 * `selvedge service upgrade`: another version of a service while it runs, as `yarn app -upgrade`.
 * One step at a time: begin, say which instances, make it final or take it back.
 */
import type { Command } from "commander";
import type { UpgradeMode, UpgradePlan } from "../../shared/protocol/service.ts";
import { refuseUnknown } from "../arguments.ts";
import { usageError } from "../errors.ts";
import { formatTable } from "../output.ts";
import type { Registrar, Session } from "../session.ts";
import { CANCELLED, FINAL, upgraded } from "../upgrade-wait.ts";
import { readYarnfile } from "../yarnfile.ts";
import { change, clientOf, type WaitFlags, withWait } from "./service-change.ts";

type UpgradeOptions = WaitFlags & {
  readonly initiate?: string;
  readonly autoFinalize?: boolean;
  readonly express?: string;
  readonly instances?: readonly string[];
  readonly components?: readonly string[];
  readonly finalize?: boolean;
  readonly cancel?: boolean;
  readonly dryRun?: boolean;
};

const STEPS = ["initiate", "express", "instances", "components", "finalize", "cancel"] as const;

export function registerUpgrade(registrar: Registrar, group: Command): void {
  const command = withWait(
    group
      .command("upgrade")
      .summary("go over to another version of a service while it runs")
      .description(
        "go over to another version of a service while it runs: --initiate it, upgrade --instances or\n" +
          "--components when you like, then --finalize it or --cancel; or --express, all by itself.\n" +
          "Containers are re-initialized in place; what does not run goes back by itself.",
      )
      .argument("<name>", "name of the service")
      .option("--initiate <file>", "begin, with the whole Yarnfile of the new version")
      .option("--auto-finalize", "with --initiate: final as soon as all are upgraded")
      .option("--express <file>", "upgrade component by component, then finalize")
      .option("--instances <names>", "upgrade these instances: hello-0,hello-1", namesOf)
      .option("--components <names>", "upgrade all instances of these components", namesOf)
      .option("--finalize", "keep the new version")
      .option("--cancel", "go back to the version before")
      .option("--dry-run", "with a file: say what would change; nothing is changed"),
    "it is as was asked for",
  );
  registrar.action<UpgradeOptions>(command, "service", upgrade);
}

async function upgrade(
  session: Session,
  [name = ""]: readonly string[],
  options: UpgradeOptions,
): Promise<void> {
  const step = onlyStep(options);
  const client = clientOf(session);
  if (step === "initiate" || step === "express") {
    return await begin(session, name, options);
  }
  if (options.autoFinalize || options.dryRun) {
    const flag = options.autoFinalize ? "--auto-finalize" : "--dry-run";
    throw usageError(`${flag} goes with a Yarnfile, not with --${step}`);
  }
  if (step === "finalize") {
    return await change(session, name, options, FINAL, "has its new version", () =>
      client.start(name),
    );
  }
  if (step === "cancel") {
    return await change(session, name, options, CANCELLED, "goes back", () =>
      client.cancelUpgrade(name),
    );
  }
  const { components = [], instances = [] } = options;
  const known = (await client.get(name)).components;
  refuseUnknown(
    name,
    "component",
    components,
    known.map((component) => component.name),
  );
  await change(session, name, options, upgraded(components, instances), "is being upgraded", () =>
    step === "components"
      ? client.upgradeComponents(name, components)
      : client.upgradeInstances(name, instances),
  );
}

async function begin(session: Session, name: string, options: UpgradeOptions): Promise<void> {
  const file = options.express ?? options.initiate ?? "";
  const mode = modeOf(options);
  if (options.autoFinalize && options.express !== undefined) {
    throw usageError("--express finalizes by itself", "leave --auto-finalize out");
  }
  if (options.wait && mode === "UPGRADING") {
    throw usageError(
      "--initiate alone is done at once, so there is nothing to wait for",
      "wait with --instances, --components or --finalize, or use --express",
    );
  }
  const client = clientOf(session);
  const { body } = await readYarnfile(file, { state: mode }, session.io);
  if (options.dryRun) {
    const plan = await client.planUpgrade(name, body);
    session.output.result(plan, () => describePlan(plan));
    return;
  }
  const done = mode === "UPGRADING" ? "can be upgraded" : "is being upgraded";
  await change(session, name, options, FINAL, done, () => client.upgrade(name, body));
}

function modeOf({ express, autoFinalize }: UpgradeOptions): UpgradeMode {
  if (express !== undefined) return "EXPRESS_UPGRADING";
  return autoFinalize ? "UPGRADING_AUTO_FINALIZE" : "UPGRADING";
}

function onlyStep(options: UpgradeOptions): (typeof STEPS)[number] {
  const given = STEPS.filter((step) => options[step] !== undefined);
  const [step, ...others] = given;
  const hint = `one of ${STEPS.map((each) => `--${each}`).join(", ")}`;
  if (step === undefined) throw usageError("nothing says what to do with the upgrade", hint);
  if (others.length > 0) {
    const flags = given.map((each) => `--${each}`).join(" and ");
    throw usageError(`${flags} are different steps`, hint);
  }
  return step;
}

function namesOf(text: string): readonly string[] {
  const names = text.split(",").map((name) => name.trim());
  return names.filter((name) => name !== "");
}

function describePlan({ from, to, components }: UpgradePlan): string {
  const title = `version ${from} -> ${to}`;
  if (components.length === 0) return `${title}: no container changes`;
  const table = formatTable(
    ["COMPONENT", "CHANGES", "IN PLACE", "CONTAINERS"],
    components.map(({ name, changes, containers, numberOfContainers }) => [
      name,
      changes.join(", "),
      String(containers),
      numberOfContainers.from === numberOfContainers.to
        ? String(numberOfContainers.from)
        : `${numberOfContainers.from} -> ${numberOfContainers.to}`,
    ]),
  );
  return `${title}\n${table}`;
}
