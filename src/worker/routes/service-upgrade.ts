/**
 * Upgrades of a service's parts (seed 001; facts/yarn-services.md §1.2, §4.12), and what an upgrade
 * would change. The upgrade of the service as a whole is a PUT on the service.
 */
import type { Context } from "hono";
import * as z from "zod";
import type { Reply } from "../../shared/errors.ts";
import { LIMITS } from "../../shared/limits.ts";
import { componentNameSchema, serviceNameSchema } from "../../shared/names.ts";
import type { UpgradePlan, UpgradeTargets } from "../../shared/protocol/service.ts";
import { parseNewVersion } from "../../shared/service-update.ts";
import {
  parseUpgradeOfComponents,
  parseUpgradeOfInstance,
  parseUpgradeOfInstances,
  upgradeComponentsSchema,
  upgradeInstanceSchema,
  upgradeInstancesSchema,
} from "../../shared/service-upgrade.ts";
import { serviceSchema } from "../../shared/yarnfile.ts";
import { actAs } from "../auth.ts";
import { type Endpoint, endpoint } from "../endpoint.ts";
import { serviceStatusSchema, upgradePlanSchema } from "../openapi-schemas.ts";
import { problem, SUCCESS } from "../problem.ts";
import type { AppEnv } from "../protocols.ts";
import { userParameter } from "../query.ts";
import { masterOf } from "./service-access.ts";

const TAG = "Services";

const ofService = z.object({ service: serviceNameSchema });
const ofInstance = z.object({
  service: serviceNameSchema,
  component: componentNameSchema,
  instance: z.string().max(LIMITS.nameLengthMax),
});
const forUser = z.object(userParameter);
const answers = {
  [SUCCESS.ACCEPTED]: { description: "The upgrade is accepted", schema: serviceStatusSchema },
};

export const serviceUpgradeEndpoints: readonly Endpoint[] = [
  endpoint({
    method: "post",
    path: "/app/v1/services/:service/plan",
    tag: TAG,
    summary: "A dry run of an upgrade: what another version of the service would change",
    parameters: ofService,
    query: forUser,
    body: {
      format: "json or yaml",
      schema: serviceSchema,
      parse: (input, { service }) => parseNewVersion(service, input),
    },
    answers: { [SUCCESS.OK]: { description: "Nothing was changed", schema: upgradePlanSchema } },
    handle: async (c, { parameters, query, body }) => {
      const user = actAs(c, query.user);
      if (!user.ok) return problem(c, user.error);
      const master = c.var.protocols.serviceMaster(user.value, parameters.service);
      const reply = await master.planUpgrade(user.value, body);
      return reply.ok ? c.json(reply.value) : problem(c, reply.error);
    },
  }),
  upgradeOfSeveral(
    "components",
    "Upgrades components: each names its component and has state UPGRADING",
    upgradeComponentsSchema,
    parseUpgradeOfComponents,
  ),
  upgradeOfSeveral(
    "component-instances",
    "Upgrades instances: each has a component_instance_name and state UPGRADING",
    upgradeInstancesSchema,
    parseUpgradeOfInstances,
  ),
  endpoint({
    method: "put",
    path: "/app/v1/services/:service/components/:component/component-instances/:instance",
    tag: TAG,
    summary: "Upgrades one instance, with state UPGRADING",
    parameters: ofInstance,
    query: forUser,
    body: {
      format: "json or yaml",
      schema: upgradeInstanceSchema,
      parse: (input, { component, instance }) => parseUpgradeOfInstance(component, instance, input),
    },
    answers,
    handle: (c, { parameters, query, body }) =>
      upgradeParts(c, query.user, parameters.service, body),
  }),
];

function upgradeOfSeveral(
  what: string,
  summary: string,
  schema: z.ZodType,
  parse: (input: unknown) => Reply<UpgradeTargets>,
): Endpoint {
  return endpoint({
    method: "put",
    path: `/app/v1/services/:service/${what}`,
    tag: TAG,
    summary,
    parameters: ofService,
    query: forUser,
    body: { format: "json or yaml", schema, parse },
    answers,
    handle: (c, { parameters, query, body }) =>
      upgradeParts(c, query.user, parameters.service, body),
  });
}

/** All or nothing, as the master decides. */
export async function upgradeParts(
  c: Context<AppEnv>,
  requestedUser: string | undefined,
  service: string,
  targets: UpgradeTargets,
): Promise<Response> {
  const master = masterOf(c, requestedUser, service);
  if (!master.ok) return problem(c, master.error);
  const reply = await master.value.upgradeInstances(targets);
  if (!reply.ok) return problem(c, reply.error);
  const diagnostics = reply.value.map((name) => `Upgrading instance ${name}`).join("\n");
  return c.json({ diagnostics, state: "ACCEPTED" }, SUCCESS.ACCEPTED);
}

export function describeUpgrade({ from, to, components }: UpgradePlan): string {
  const changed = components.filter(({ changes }) => changes.length > 0).map(({ name }) => name);
  const what = changed.length === 0 ? "no container changes" : changed.join(", ");
  return `Upgrade from version ${from} to ${to} accepted: ${what}`;
}
