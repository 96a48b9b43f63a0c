/** Digest accessors of the registry (seed 000 "Security"): what one is, and how a request shows it. */
import { LIMITS } from "./limits.ts";
import type { RegistryAccessor } from "./protocol/registry-operations.ts";

/** `id:password`; may be repeated. */
export const ACCESSOR_HEADER = "X-Registry-Accessor";

const ID = /^[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?$/;
/** Visible ASCII but `,` and `:`, which the header needs for itself. Java refuses `:` as well. */
const PASSWORD = /^[!-+\--9;-~]+$/;

export function isAccessor({ id, password }: RegistryAccessor): boolean {
  return (
    id.length <= LIMITS.accessorIdLengthMax &&
    ID.test(id) &&
    password.length >= LIMITS.accessorPasswordLengthMin &&
    password.length <= LIMITS.accessorPasswordLengthMax &&
    PASSWORD.test(password)
  );
}
