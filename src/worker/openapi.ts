/**
 * The OpenAPI 3.1 description of the API, made from the endpoints that route it. 3.1 speaks JSON
 * Schema 2020-12, which zod writes itself. Schemas with an id stand once, below components.
 */
import * as z from "zod";
import { VERSION } from "../shared/version.ts";
import { accessOf } from "./auth.ts";
import type { AnswerSpecification, Endpoint } from "./endpoint.ts";
import { problemSchema } from "./openapi-schemas.ts";
import { SUCCESS } from "./problem.ts";
import { REGISTRY_ANSWERS, registryOperation } from "./registry-openapi.ts";

type JsonSchema = Readonly<Record<string, unknown>>;
type Schemas = Record<string, JsonSchema>;

const MEDIA_TYPES = {
  json: ["application/json"],
  "json or yaml": ["application/json", "application/yaml"],
  "json, yaml or xml": ["application/json", "application/yaml", "application/xml"],
} as const;

/** The whole document; the same endpoints always give the same text. */
export function describeApi(endpoints: readonly Endpoint[]) {
  const schemas: Schemas = {};
  const paths: Record<string, Record<string, unknown>> = {};
  for (const each of endpoints) {
    const path = each.path.replaceAll(/:(\w+)/g, "{$1}");
    const operations = paths[path] ?? {};
    paths[path] = operations;
    operations[each.method] = describeOperation(each, schemas);
  }
  const registryAnswers = REGISTRY_ANSWERS.map((answer) => describeSchema(answer, schemas));
  paths["/registry/v1/{path}"] = {
    get: registryOperation(registryAnswers, problemReference(), SUCCESS.OK),
  };
  const problem = describeSchema(problemSchema, schemas);
  return {
    openapi: "3.1.0",
    info: {
      title: "Selvedge",
      version: VERSION,
      description: "YARN's Service API, ResourceManager REST and service registry at the edge.",
      license: { name: "Apache-2.0", identifier: "Apache-2.0" },
    },
    servers: [
      { url: "/", description: "The cluster named default" },
      {
        url: "/clusters/{cluster}",
        description: "Another cluster of the same deployment",
        variables: { cluster: { default: "default" } },
      },
    ],
    security: [{ bearer: [] }],
    paths,
    components: {
      schemas: sortByName(schemas),
      securitySchemes: {
        bearer: {
          type: "http",
          scheme: "bearer",
          bearerFormat: "JWT",
          description: "A token of the cluster: selvedge login, or POST /ws/v1/security/tokens.",
        },
      },
      responses: {
        Problem: {
          description: "Why the request failed",
          content: { "application/problem+json": { schema: problem } },
        },
      },
    },
  };
}

function describeOperation(endpoint: Endpoint, schemas: Schemas) {
  const access = accessOf(endpoint.method.toUpperCase(), endpoint.path);
  const answers = Object.entries(endpoint.answers).map(([status, answer]) => [
    status,
    describeAnswer(answer, schemas),
  ]);
  return {
    tags: [endpoint.tag],
    summary: endpoint.summary,
    ...(access === "public" ? { security: [] } : {}),
    ...(access === "user" || access === "public" ? {} : { description: `Access: ${access}.` }),
    parameters: [
      ...describeParameters(endpoint.parameters, "path", schemas),
      ...describeParameters(endpoint.query, "query", schemas),
    ],
    ...(endpoint.body ? { requestBody: describeBody(endpoint.body, schemas) } : {}),
    responses: { ...Object.fromEntries(answers), default: problemReference() },
  };
}

function describeBody({ schema, format }: NonNullable<Endpoint["body"]>, schemas: Schemas) {
  const described = describeSchema(schema, schemas);
  const content = MEDIA_TYPES[format].map((type) => [type, { schema: described }]);
  return { required: true, content: Object.fromEntries(content) };
}

function describeAnswer({ description, schema }: AnswerSpecification, schemas: Schemas) {
  if (schema === undefined) return { description };
  return {
    description,
    content: { "application/json": { schema: describeSchema(schema, schemas) } },
  };
}

function describeParameters(schema: z.ZodType | undefined, place: string, schemas: Schemas) {
  if (schema === undefined) return [];
  const { properties = {}, required = [] } = describeSchema(schema, schemas) as {
    properties?: Readonly<Record<string, JsonSchema>>;
    required?: readonly string[];
  };
  return Object.entries(properties).map(([name, described]) => ({
    name,
    in: place,
    required: required.includes(name),
    schema: described,
  }));
}

/** What is accepted, in JSON Schema; named schemas are moved into `schemas` and referred to. */
function describeSchema(schema: z.ZodType, schemas: Schemas): JsonSchema {
  const json = z.toJSONSchema(schema, { io: "input", unrepresentable: "any" });
  const text = JSON.stringify(json).replaceAll('"#/$defs/', '"#/components/schemas/');
  const { $schema: _, $defs = {}, id, ...described } = JSON.parse(text);
  for (const [name, { id: __, ...definition }] of Object.entries<Record<string, unknown>>($defs)) {
    schemas[name] = definition;
  }
  if (id === undefined) return described;
  schemas[id] = described;
  return { $ref: `#/components/schemas/${id}` };
}

function problemReference() {
  return { $ref: "#/components/responses/Problem" };
}

function sortByName(schemas: Schemas): Schemas {
  return Object.fromEntries(Object.entries(schemas).sort(([a], [b]) => (a < b ? -1 : 1)));
}
