/**
 * A user's name as the path element of `/users/{user}` (seed 000 "Path Elements"; facts/
 * registry-dns.md §1.4 and §1.5: Java's convertUsername, IDNA2003 and registryUser).
 *
 * IDNA2003, not the URL standard's later one: that would make "" of a name with a space, `0.0.0.0`
 * of the user `000000`, and would not find the homes which Java has made for `straße`.
 */
import { fail, ok, type Reply } from "./errors.ts";
import { LIMITS } from "./limits.ts";
import { encodePunycode } from "./punycode.ts";
import { isPathElement, quote } from "./registry-path-element.ts";

/** Longer names cannot fit into an element; checked first, so that no long text is ever folded. */
const USER_NAME_LENGTH_MAX = 255;

const ASCII = /^\p{ASCII}*$/u;
/** RFC 3454 table B.1: characters that nameprep drops. */
const DROPPED = /\u034F|[\u00AD\u1806\u200B-\u200D\u2060\uFEFF]|[\u180B-\u180D]|[\uFE00-\uFE0F]/gu;
/** RFC 3454 tables C.1.2 to C.9 as Unicode properties: what no name may hold. */
const PROHIBITED =
  /[\p{Zl}\p{Zp}\p{Cc}\p{Cf}\p{Co}\p{Cs}\p{Noncharacter_Code_Point}\u1680\uFFFC\uFFFD]/u;

/**
 * `hbase/localhost@REALM` → `hbase`, `foo_bar` → `foo-bar`, `München` → `xn--mnchen-3ya`. What DNS
 * does not allow in ASCII (dots, spaces, …) becomes `-`. Several users may share an element, as
 * in Java: it is a place, not a proof of who somebody is. Fails with InvalidPathnameException.
 */
export function userPathElement(user: string): Reply<string> {
  const element = user.length > USER_NAME_LENGTH_MAX ? null : encode(shortName(user));
  if (element !== null && isPathElement(element)) return ok(element);
  return fail("INVALID_ARGUMENT", `user name ${quote(user)} has no place in the registry`, {
    reason: "InvalidPathnameException",
    hint:
      "a user name starts and ends with a letter or digit, has no control characters, and has " +
      `at most ${LIMITS.nameLengthMax} bytes in its DNS form`,
  });
}

/** Lower case, without realm and host. A separator in front is part of the name, as in Java. */
function shortName(user: string): string {
  let name = user.toLowerCase();
  for (const separator of ["@", "/"]) {
    const at = name.indexOf(separator);
    if (at > 0) name = name.slice(0, at);
  }
  return name;
}

function encode(name: string): string | null {
  const prepared = ASCII.test(name) ? name : prepare(name);
  if (PROHIBITED.test(prepared)) return null;
  // `_` goes through punycode and is replaced afterwards: that is where Java has put its homes.
  const label = prepared.replaceAll(/(?![a-z0-9_-])\p{ASCII}/gu, "-");
  if (ASCII.test(label)) return label.replaceAll("_", "-");
  // RFC 3490 §4.1 step 5: what already claims to be encoded is not encoded again.
  if (label.startsWith("xn--")) return null;
  const encoded = `xn--${encodePunycode(label)}`;
  return encoded.replaceAll("_", "-");
}

/**
 * RFC 3491 nameprep: drop, fold case, normalise to NFKC. Full case folding in terms of what the
 * language offers: lower case of the decomposed text, plus the letters whose folding differs.
 */
function prepare(name: string): string {
  const folded = name
    .replaceAll(DROPPED, "")
    .normalize("NFKC")
    .normalize("NFD")
    .toLowerCase()
    .replaceAll("ß", "ss")
    .replaceAll("ς", "σ")
    .replaceAll("\u0345", "ι");
  return folded.normalize("NFKC").replaceAll("\u3002", ".");
}
