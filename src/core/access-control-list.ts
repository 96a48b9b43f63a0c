/**
 * Hadoop's AccessControlList, as text: users with commas between them, a blank, groups with commas
 * between them; `*` is everybody, blank is nobody.
 */

export type AccessControlList =
  | { readonly everybody: true }
  /** Both lists empty is nobody. */
  | {
      readonly everybody: false;
      readonly users: readonly string[];
      readonly groups: readonly string[];
    };

export const EVERYBODY: AccessControlList = { everybody: true };
export const NOBODY: AccessControlList = { everybody: false, users: [], groups: [] };

const WORDS = "`*`, or users with commas, a blank, and groups with commas (alice,bob ops)";

/** Blanks after a comma do not count. */
export function parseAccessControlList(
  text: string,
): { readonly value: AccessControlList } | { readonly expects: string } {
  if (text.trim() === "*") return { value: EVERYBODY };
  if (text.trim() === "") return { value: NOBODY };
  const [users = "", groups = "", ...more] = text
    .replaceAll(/\s*,\s*/g, ",")
    .trimEnd()
    .split(/\s+/);
  const names = { users: namesOf(users), groups: namesOf(groups) };
  const hasOddName = [...names.users, ...names.groups].some((name) => /[*~]/.test(name));
  if (more.length > 0 || hasOddName) return { expects: WORDS };
  return { value: { everybody: false, ...names } };
}

function namesOf(text: string): string[] {
  return text.split(",").filter((name) => name !== "");
}

/** As `parseAccessControlList` reads it. */
export function formatAccessControlList(acl: AccessControlList): string {
  if (acl.everybody) return "*";
  return `${acl.users.join(",")} ${acl.groups.join(",")}`;
}

export function isListed(
  acl: AccessControlList,
  { user, groups }: { readonly user: string; readonly groups: readonly string[] },
): boolean {
  return (
    acl.everybody || acl.users.includes(user) || groups.some((group) => acl.groups.includes(group))
  );
}
