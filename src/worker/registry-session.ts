/**
 * Who writes to the registry: the request's token, and the accessors that it shows in the header
 * `X-Registry-Accessor: id:password`, which may be repeated (seed 000 "Security"). A header, because
 * URLs and bodies end in logs more easily. Whether an accessor proves anything is the registry's to
 * say.
 */
import type { Context } from "hono";
import { fail, ok, type Reply } from "../shared/errors.ts";
import { LIMITS } from "../shared/limits.ts";
import type {
  RegistryAccessor,
  RegistryCaller,
  RegistrySession,
} from "../shared/protocol/registry-operations.ts";
import { ACCESSOR_HEADER, isAccessor } from "../shared/registry-accessor.ts";
import type { AppEnv } from "./protocols.ts";

export function registrySessionOf(c: Context<AppEnv>): Reply<RegistrySession> {
  const accessors = readAccessors(c.req.header(ACCESSOR_HEADER));
  return accessors.ok ? ok({ caller: callerOf(c), accessors: accessors.value }) : accessors;
}

function callerOf(c: Context<AppEnv>): RegistryCaller {
  const { caller } = c.var;
  switch (caller?.kind) {
    case "user":
      return { kind: "user", user: caller.user, admin: caller.role === "admin" };
    case "container":
      return { kind: "container", containerId: caller.containerId, path: caller.path };
    default:
      return { kind: "anonymous" };
  }
}

/** HTTP joins repeated headers with commas, which no accessor has. */
function readAccessors(header: string | undefined): Reply<readonly RegistryAccessor[]> {
  if (header === undefined) return ok([]);
  const texts = header.split(",").map((text) => text.trim());
  const most = LIMITS.registryAccessorsPerRequestMax;
  if (texts.length > most) return invalid(`${ACCESSOR_HEADER} is sent more than ${most} times`);
  const accessors: RegistryAccessor[] = [];
  for (const text of texts) {
    const at = text.indexOf(":");
    const accessor = { id: text.slice(0, Math.max(at, 0)), password: text.slice(at + 1) };
    if (!isAccessor(accessor)) return invalid(`a ${ACCESSOR_HEADER} is not id:password`);
    if (accessors.some(({ id }) => id === accessor.id)) {
      return invalid(`two ${ACCESSOR_HEADER} have the same id`);
    }
    accessors.push(accessor);
  }
  return ok(accessors);
}

function invalid(message: string): Reply<never> {
  const { accessorPasswordLengthMin: least, accessorPasswordLengthMax: most } = LIMITS;
  return fail("INVALID_ARGUMENT", message, {
    reason: "InvalidAccessor",
    hint: `the id is a word, the password ${least} to ${most} visible ASCII characters but , and :`,
  });
}
