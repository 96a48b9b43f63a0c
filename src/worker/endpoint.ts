/**
 * One operation of the HTTP API: its place, its inputs' schemas, its handler. The same value routes
 * the request, validates it and describes it in docs/openapi.json, so that none of the three can
 * drift from the others. A handler is called with validated input only.
 */
import type { Context, Hono } from "hono";
import type * as z from "zod";
import { fail, type Reply } from "../shared/errors.ts";
import { validate } from "../shared/validation.ts";
import { problem } from "./problem.ts";
import type { AppEnv } from "./protocols.ts";
import { type BodyFormat, readBody } from "./request-body.ts";

export type Method = "get" | "post" | "put" | "delete";

export type BodySpecification<Body, Parameters = unknown> = {
  readonly format: BodyFormat;
  /** What the document shows. */
  readonly schema: z.ZodType;
  /** What decides. */
  readonly parse: (input: unknown, parameters: Parameters) => Reply<Body>;
};

/** An answer as the document shows it; without a schema it has no body. */
export type AnswerSpecification = {
  readonly description: string;
  readonly schema?: z.ZodType;
};

type Input<Parameters, Query, Body> = {
  readonly parameters: Parameters;
  readonly query: Query;
  readonly body: Body;
};

type Specification<Parameters, Query, Body> = {
  readonly method: Method;
  /** In Hono's form: `/app/v1/services/:service`. */
  readonly path: string;
  readonly tag: string;
  readonly summary: string;
  readonly parameters?: z.ZodType<Parameters>;
  readonly query?: z.ZodType<Query>;
  readonly body?: BodySpecification<Body, Parameters>;
  /** By status number. */
  readonly answers: Readonly<Record<number, AnswerSpecification>>;
  readonly handle: (
    c: Context<AppEnv>,
    input: Input<Parameters, Query, Body>,
  ) => Response | Promise<Response>;
};

export type Endpoint = Omit<Specification<never, never, never>, "handle" | "body"> & {
  readonly body?: Omit<BodySpecification<never>, "parse">;
  readonly answer: (c: Context<AppEnv>) => Promise<Response>;
};

/** Makes an endpoint whose handler sees only what its schemas let through. */
export function endpoint<Parameters = undefined, Query = undefined, Body = undefined>(
  specification: Specification<Parameters, Query, Body>,
): Endpoint {
  const { handle, ...shown } = specification;
  const answer = async (c: Context<AppEnv>): Promise<Response> => {
    const parameters = parse(specification.parameters, c.req.param());
    if (!parameters.ok) return problem(c, parameters.error);
    const query = parse(specification.query, queryOf(c));
    if (!query.ok) return problem(c, query.error);
    const body = await parseBody(c, specification.body, parameters.value);
    if (!body.ok) return problem(c, body.error);
    return handle(c, { parameters: parameters.value, query: query.value, body: body.value });
  };
  return { ...shown, answer } as unknown as Endpoint;
}

/** A body that one schema describes and decides. */
export function jsonBody<Schema extends z.ZodType>(
  schema: Schema,
): BodySpecification<z.output<Schema>> {
  return { format: "json", schema, parse: (input) => validate(schema, input) };
}

/** Routes the endpoints; another method on one of their paths is answered with those that exist. */
export function addEndpoints(app: Hono<AppEnv>, endpoints: readonly Endpoint[]): void {
  for (const { method, path, answer } of endpoints) app.on(method.toUpperCase(), path, answer);
  for (const [path, group] of Map.groupBy(endpoints, (each) => each.path)) {
    const allowed = group.map((each) => each.method.toUpperCase()).join(", ");
    app.all(path, (c) => {
      const failure = fail(
        "INVALID_ARGUMENT",
        `${c.req.path} cannot be used with ${c.req.method}`,
        {
          reason: "MethodNotAllowed",
          hint: `it answers ${allowed}`,
        },
      );
      const response = problem(c, failure.error);
      response.headers.set("Allow", allowed);
      return response;
    });
  }
}

/** Without a schema there is no input, and handlers see undefined. */
function parse<Value>(schema: z.ZodType<Value> | undefined, input: unknown): Reply<Value> {
  return schema === undefined
    ? { ok: true, value: undefined as Value }
    : (validate(schema, input) as Reply<Value>);
}

/** A parameter given once is a text, given several times a list; schemas say which they take. */
function queryOf(c: Context<AppEnv>): unknown {
  const parameters = Object.entries(c.req.queries());
  return Object.fromEntries(
    parameters.map(([name, values]) => [name, values.length === 1 ? values[0] : values]),
  );
}

async function parseBody<Body, Parameters>(
  c: Context<AppEnv>,
  specification: BodySpecification<Body, Parameters> | undefined,
  parameters: Parameters,
): Promise<Reply<Body>> {
  if (specification === undefined) return { ok: true, value: undefined as Body };
  const value = await readBody(c, specification.format);
  return value.ok ? specification.parse(value.value, parameters) : value;
}
