/** `selvedge context …`: the clusters that `selvedge login` remembers. Tokens are never shown. */
import type { Command } from "commander";
import { type Context, getContext, readContexts, writeContexts } from "../contexts.ts";
import { formatTable } from "../output.ts";
import type { Registrar } from "../session.ts";

export function registerContext(registrar: Registrar): void {
  const group = registrar.program.command("context").description("choose among known clusters");
  registerReads(registrar, group);

  const use = group
    .command("use")
    .description("make a context the current one")
    .argument("<name>", "name of the context");
  registrar.action(use, "other", async ({ io, output }, [name = ""]) => {
    const contexts = readContexts(io);
    const context = getContext(contexts, name);
    writeContexts({ ...contexts, current: name }, io);
    output.result(shown(name, context, name), () =>
      output.quiet ? "" : `context ${name} (${context.url}) is now the current one`,
    );
  });

  const remove = group
    .command("remove")
    .description("forget a context and its token")
    .argument("<name>", "name of the context");
  registrar.action(remove, "other", async ({ io, output }, [name = ""]) => {
    const { current, contexts } = readContexts(io);
    const removed = getContext({ current, contexts }, name);
    const { [name]: _, ...rest } = contexts;
    const next = current === name ? null : current;
    writeContexts({ current: next, contexts: rest }, io);
    output.result(shown(name, removed, next), () =>
      output.quiet ? "" : `context ${name} is forgotten${next === null ? "; none is current" : ""}`,
    );
  });
}

function registerReads(registrar: Registrar, group: Command): void {
  const list = group.command("list").description("list the known clusters");
  registrar.action(list, "other", async ({ io, output }) => {
    const { current, contexts } = readContexts(io);
    const all = Object.entries(contexts).map(([name, each]) => shown(name, each, current));
    output.result(all, () => {
      if (output.quiet) return all.map(({ name }) => name).join("\n");
      if (all.length === 0) return "no contexts; `selvedge login --url URL` makes one";
      return formatTable(
        ["CURRENT", "NAME", "URL", "CLUSTER", "USER", "TOKEN"],
        all.map((each) => [
          each.current ? "*" : " ",
          each.name,
          each.url,
          each.cluster ?? "",
          each.user ?? "",
          each.token,
        ]),
      );
    });
  });

  const show = group
    .command("show")
    .description("show one context, or where commands go at present")
    .argument("[name]", "name of the context");
  registrar.action(show, "other", async (session, [name]) => {
    if (name !== undefined) {
      const contexts = readContexts(session.io);
      const one = shown(name, getContext(contexts, name), contexts.current);
      return session.output.result(one, () => lines(one));
    }
    const { token, ...rest } = session.connection();
    const here = { ...rest, token: token === undefined ? "none" : "set" };
    session.output.result(here, () => lines(here));
  });
}

/** A context without its secret. */
function shown(name: string, { token, ...rest }: Context, current: string | null) {
  return { name, ...rest, current: name === current, token: token === undefined ? "none" : "set" };
}

function lines(fields: Readonly<Record<string, unknown>>): string {
  return Object.entries(fields)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${`${name}:`.padEnd(10)}${value}`)
    .join("\n");
}
