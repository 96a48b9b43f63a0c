/**
 * `GET /install.sh`: a shell script that installs the command, `selvedge`, of the deployment's own
 * version. The Worker does not hold the command's file; the deployment says where it lies, and what
 * its SHA-256 is. The script runs nothing that is not exactly that file.
 */
import type { Context } from "hono";
import { fail, ok, type Reply } from "../../shared/errors.ts";
import { VERSION } from "../../shared/version.ts";
import { type Endpoint, endpoint } from "../endpoint.ts";
import { problem, STATUS, SUCCESS } from "../problem.ts";
import type { AppEnv } from "../protocols.ts";

/** The file that `npm run build` writes as dist/selvedge.mjs, wherever the deployment keeps it. */
export type CommandSource = { readonly url: string; readonly sha256: string };

const SHA256 = /^[0-9a-f]{64}$/;
const LOOPBACK = /^(?:localhost|127\.0\.0\.1|\[::1\])$/;

/**
 * From two variables of the deployment; null when neither is set. Fails with INVALID_ARGUMENT when
 * they could not be put into a script safely: plain http beyond this machine, no digest, quotes.
 */
export function commandSource(
  url: string | undefined,
  sha256: string | undefined,
): Reply<CommandSource | null> {
  if (!url && !sha256) return ok(null);
  const parsed = URL.parse(url ?? "");
  const isSafe =
    parsed?.protocol === "https:" ||
    (parsed?.protocol === "http:" && LOOPBACK.test(parsed.hostname));
  if (parsed === null || !isSafe || parsed.username !== "" || parsed.password !== "") {
    return fail("INVALID_ARGUMENT", "the command's URL must be https:, without a password");
  }
  if (!SHA256.test(sha256 ?? "")) {
    return fail("INVALID_ARGUMENT", "the command's SHA-256 must be 64 hexadecimal digits", {
      hint: "sha256sum dist/selvedge.mjs",
    });
  }
  // `href` has no blank, no quote but ', and no control character.
  return ok({ url: parsed.href.replaceAll("'", "%27"), sha256: sha256 ?? "" });
}

/** `sourceOf` answers what the deployment has set. */
export function installEndpoint(
  sourceOf: (c: Context<AppEnv>) => Reply<CommandSource | null>,
): Endpoint {
  return endpoint({
    method: "get",
    path: "/install.sh",
    tag: "Nodes",
    summary: "A shell script that installs the command: curl -fsSL …/install.sh | sh",
    answers: {
      [SUCCESS.OK]: { description: "The script (text/x-shellscript)" },
      [STATUS.NOT_FOUND]: { description: "This deployment does not say where the command lies" },
    },
    handle: (c) => {
      const source = sourceOf(c);
      if (!source.ok) return problem(c, source.error);
      if (source.value === null) {
        const failure = fail("NOT_FOUND", "this deployment does not say where its command lies", {
          hint: "run `npm ci && npm run build` in a checkout: dist/selvedge.mjs is the command",
        });
        return problem(c, failure.error);
      }
      return c.body(installScript(source.value), SUCCESS.OK, {
        "Content-Type": "text/x-shellscript; charset=utf-8",
        "Cache-Control": "no-cache",
      });
    },
  });
}

/** POSIX sh. All of it is one function, so that half a script, of a connection that broke, does nothing. */
export function installScript({ url, sha256 }: CommandSource): string {
  return `#!/bin/sh
# Installs the selvedge command ${VERSION}. SELVEDGE_PREFIX says where: /usr/local for root, else ~/.local.
set -eu

fail() {
  printf 'error: %s\\n' "$1" >&2
  exit 1
}

fetch() {
  if command -v curl >/dev/null 2>&1; then
    curl --fail --silent --show-error --location --proto-redir '=https' --output "$2" "$1"
  elif command -v wget >/dev/null 2>&1; then
    wget --quiet --output-document="$2" "$1"
  else
    fail 'curl or wget is needed'
  fi
}

digest() {
  if command -v sha256sum >/dev/null 2>&1; then
    sha256sum "$1" | cut -d ' ' -f 1
  elif command -v shasum >/dev/null 2>&1; then
    shasum -a 256 "$1" | cut -d ' ' -f 1
  else
    fail 'sha256sum or shasum is needed'
  fi
}

main() {
  command -v node >/dev/null 2>&1 || fail 'Node.js 22.18 or newer is needed: https://nodejs.org'
  node -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 22 || (a === 22 && b >= 18) ? 0 : 1)' ||
    fail "Node.js 22.18 or newer is needed, and this is $(node --version)"

  if [ "$(id -u)" = 0 ]; then prefix=/usr/local; else prefix="$HOME/.local"; fi
  prefix="\${SELVEDGE_PREFIX:-$prefix}"
  directory="$prefix/lib/selvedge"
  mkdir -p "$directory" "$prefix/bin" || fail "cannot write to $prefix: set SELVEDGE_PREFIX"

  file="$directory/selvedge-${VERSION}.mjs"
  unchecked="$file.$$"
  trap 'rm -f "$unchecked"' EXIT
  fetch '${url}' "$unchecked" || fail 'the download failed'
  found="$(digest "$unchecked")"
  [ "$found" = '${sha256}' ] || fail "the download has the SHA-256 $found and not ${sha256}"
  chmod 755 "$unchecked"
  mv -f "$unchecked" "$file"
  ln -sf "$file" "$prefix/bin/selvedge"

  printf 'selvedge ${VERSION} is installed as %s\\n' "$prefix/bin/selvedge"
  case ":$PATH:" in
    *":$prefix/bin:"*) ;;
    *) printf 'note: %s is not in your PATH\\n' "$prefix/bin" ;;
  esac
}

main "$@"
`;
}
