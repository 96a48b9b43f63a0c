/** What commands on a service answer when they cannot be carried out. */
import { fail } from "../../shared/errors.ts";

export function noSuchService() {
  return fail("NOT_FOUND", "there is no such service", {
    hint: "selvedge service list shows the services there are",
  });
}
