/** What `selvedge service upgrade --wait` waits for; what failed is an error, not a longer wait. */
import type { ContainerView, ServiceView } from "../shared/service.ts";
import { CliError } from "./errors.ts";
import { EXIT_CODE } from "./exit-codes.ts";
import { type Goal, STABLE } from "./wait.ts";

/** The new version is the service's, and all of it is ready. */
export const FINAL: Goal = {
  wanted: () => "upgraded",
  judge(name, view) {
    if (view === null || !view.state.includes("UPGRADING")) return STABLE.judge(name, view);
    return failedUpgrade(name, containersOf(view)) ?? "waiting";
  },
};

/** The version before is back, and all of it is ready. */
export const CANCELLED: Goal = { ...FINAL, wanted: () => "back at the version before" };

/** These instances, and all of these components, are ready with the new version. */
export function upgraded(components: readonly string[], instances: readonly string[]): Goal {
  return {
    wanted: () => "upgraded so far",
    judge(name, view) {
      // Final, or cancelled by somebody else: the service's own state says how it is.
      if (view === null || !view.state.includes("UPGRADING")) return STABLE.judge(name, view);
      const isOf = (container: ContainerView) =>
        instances.includes(container.component_instance_name);
      const named = containersOf(view).filter(isOf);
      const ofComponents = view.components.filter((each) => components.includes(each.name));
      const all = [...named, ...ofComponents.flatMap((component) => component.containers)];
      const failed = failedUpgrade(name, all);
      if (failed) return failed;
      const isReady =
        named.length === instances.length && all.every((each) => each.state === "READY");
      return isReady && ofComponents.every(({ state }) => state === "STABLE")
        ? "reached"
        : "waiting";
    },
  };
}

function containersOf(view: ServiceView): readonly ContainerView[] {
  return view.components.flatMap((component) => component.containers);
}

function failedUpgrade(name: string, containers: readonly ContainerView[]): CliError | undefined {
  const failed = containers.filter(({ state }) => state === "FAILED_UPGRADE");
  const [first] = failed;
  if (first === undefined) return undefined;
  return new CliError(EXIT_CODE.DEPLOYMENT_FAILED, {
    code: "FAILED_PRECONDITION",
    message: `service ${name}: ${first.component_instance_name} could not be upgraded: ${first.diagnostics}`,
    hint: `try it again with --instances, or go back: \`selvedge service upgrade ${name} --cancel\``,
    findings: failed.map((each) => ({
      path: "",
      message: `${each.component_instance_name}: ${each.diagnostics}`,
    })),
  });
}
