/**
 * A node's configuration: a file with YARN's property names, as JSON, YAML or XML, read as a whole. Every
 * mistake is found at once. What belongs to other daemons, such as `yarn.resourcemanager.…`, is passed
 * over, so that a yarn-site's properties can be taken as they are; an unknown property of the node
 * itself is a mistake, since an allow-list with a slip in its name must not be lost in silence.
 */
import { didYouMeanClause } from "../shared/did-you-mean.ts";
import { type Finding, fail, ok, type Reply } from "../shared/errors.ts";
import { readHadoopXml } from "../shared/hadoop-xml.ts";
import { RESOURCE_NAME } from "../shared/resource.ts";
import { describeValue, invalid } from "../shared/validation.ts";
import { parseYaml } from "../shared/yaml.ts";
import {
  type Kind,
  path,
  type RawValue,
  textLike,
  wholeNumber,
} from "./node-configuration-kinds.ts";
import { FAMILIES, PROPERTIES, type Property, WITHOUT_EFFECT } from "./node-configuration-table.ts";

type Table = typeof PROPERTIES;
type ValueOf<Each> = Each extends Property<infer Value> ? Value : never;
/** Values by the key of their property, defaults filled in. */
type TableValues = { readonly [Key in keyof Table]: ValueOf<Table[Key]> };

/** A health script that has a path. */
export type ConfiguredScript = {
  readonly name: string;
  readonly path: string;
  readonly arguments: readonly string[];
  readonly intervalMs: number;
  readonly timeoutMs: number;
};
export type ConfiguredService = {
  readonly name: string;
  /** Below the directory of auxiliary services. */
  readonly path: string;
  readonly configuration: Readonly<Record<string, string>>;
};

export type NodeConfiguration = Omit<TableValues, "healthScripts" | "auxiliaryServices"> & {
  readonly healthScripts: readonly ConfiguredScript[];
  readonly auxiliaryServices: readonly ConfiguredService[];
  /** Amounts by resource type, such as `yarn.io/gpu`. */
  readonly resourceTypes: Readonly<Record<string, number>>;
  readonly attributes: Readonly<Record<string, string>>;
  /** User of the machine by YARN user. */
  readonly userMapping: Readonly<Record<string, string>>;
  /** What the file says, under the table's names, for people to check. */
  readonly honoured: Readonly<Record<string, string>>;
  /** What it says in vain, and why. */
  readonly notes: readonly string[];
};

const HEALTH_SCRIPTS_MAX = 4;
const OWN = /^(?:yarn\.nodemanager|selvedge\.node)\./;
const anyText = textLike(/^[^\0]*$/, "text");
const osUser = textLike(/^(?:[a-z_][a-z0-9_.-]{0,31}\$?|\d{1,10}:\d{1,10})$/, "a user, or uid:gid");
const relativePath = textLike(/^(?!\/)(?!.*(?:^|\/)\.\.(?:\/|$)).+$/, "a path below the directory");
const duration = wholeNumber(1_000, "ms");

const FAMILY_KINDS: Readonly<Record<keyof typeof FAMILIES, Kind<string | number>>> = {
  resourceTypes: wholeNumber(0),
  attributes: anyText,
  healthScriptPath: path,
  healthScriptArguments: anyText,
  healthScriptIntervalMs: duration,
  healthScriptTimeoutMs: duration,
  auxiliaryServicePath: relativePath,
  auxiliaryServiceConfiguration: anyText,
  userMapping: osUser,
};

/**
 * JSON or YAML: one object of property names and values; or XML, such as a yarn-site.xml. Fails with
 * INVALID_ARGUMENT.
 */
export function parseNodeConfigurationText(text: string): Reply<NodeConfiguration> {
  if (/^\uFEFF?\s*</.test(text)) {
    const site = readHadoopXml(text, isOfNode);
    return site.ok ? parseNodeConfiguration(site.value) : site;
  }
  const parsed = parseYaml(text);
  if (!parsed.ok) return parsed;
  const properties = parsed.value ?? {};
  if (typeof properties !== "object" || Array.isArray(properties)) {
    return fail("INVALID_ARGUMENT", "the configuration is no object of properties", {
      hint: 'write one property on each line: "yarn.nodemanager.resource.memory-mb: 8192"',
    });
  }
  const findings: Finding[] = [];
  const values = new Map<string, RawValue>();
  for (const [name, value] of Object.entries(properties)) {
    if (isRaw(value)) values.set(name, value);
    else if (value !== null) findings.push({ path: name, message: wanted("a value", value, name) });
  }
  return findings.length ? invalid(findings) : parseNodeConfiguration(values);
}

/** Whether a node goes by the property, so that its value must be understood. */
function isOfNode(name: string): boolean {
  const table = Object.values<Property<unknown>>(PROPERTIES);
  return OWN.test(name) || table.some((each) => each.name === name);
}

/** The same of properties that were read already. */
export function parseNodeConfiguration(
  properties: ReadonlyMap<string, RawValue>,
): Reply<NodeConfiguration> {
  const reader = new Reader(properties);
  const values = reader.readTable();
  reader.readFamilies();
  reader.passOverTheRest();
  const configuration: NodeConfiguration = {
    ...values,
    healthScripts: reader.healthScripts(values),
    auxiliaryServices: reader.services(values),
    resourceTypes: reader.resourceTypes(),
    attributes: reader.family("attributes"),
    userMapping: reader.family("userMapping"),
    honoured: reader.honoured,
    notes: reader.notes,
  };
  return reader.findings.length ? invalid(reader.findings) : ok(configuration);
}

class Reader {
  readonly findings: Finding[] = [];
  readonly notes: string[] = [];
  readonly honoured: Record<string, string> = {};
  readonly #rest: Map<string, RawValue>;
  /** Values of each family by what stands for its `*`. */
  readonly #families = new Map<keyof typeof FAMILIES, Map<string, string | number>>();

  constructor(properties: ReadonlyMap<string, RawValue>) {
    this.#rest = new Map(properties);
  }

  readTable(): TableValues {
    const entries = Object.entries<Property<unknown>>(PROPERTIES);
    return Object.fromEntries(
      entries.map(([key, each]) => [key, this.#readProperty(each)]),
    ) as TableValues;
  }

  #readProperty({ name, aliases = [], kind, default: otherwise }: Property<unknown>): unknown {
    const given = [name, ...aliases].filter((each) => this.#rest.has(each));
    if (given.length > 1) {
      const message = `means the same as ${given.slice(1).join(", ")}: keep one of them`;
      this.findings.push({ path: name, message });
    }
    const values = given.map((each) => this.#take(each, name, kind));
    return values[0] ?? otherwise;
  }

  #take<Value>(given: string, name: string, kind: Kind<Value>): Value | undefined {
    const raw = this.#rest.get(given) ?? "";
    this.#rest.delete(given);
    const value = kind.read(raw);
    if (value === undefined) {
      this.findings.push({ path: given, message: wanted(kind.words, raw, given) });
    } else this.honoured[name] = Array.isArray(value) ? value.join(",") : String(value);
    return value;
  }

  readFamilies(): void {
    for (const family of Object.keys(FAMILIES) as (keyof typeof FAMILIES)[]) {
      const found = new Map<string, string | number>();
      const pattern = patternOf(FAMILIES[family]);
      for (const given of [...this.#rest.keys()]) {
        const parts = pattern.exec(given)?.slice(1);
        if (parts === undefined) continue;
        const value = this.#take(given, given, FAMILY_KINDS[family]);
        if (value !== undefined) found.set(parts.join(" "), value);
      }
      this.#families.set(family, found);
    }
  }

  passOverTheRest(): void {
    const known = [
      ...Object.values<Property<unknown>>(PROPERTIES).flatMap(({ name, aliases = [] }) => [
        name,
        ...aliases,
      ]),
      ...Object.keys(WITHOUT_EFFECT),
    ];
    let others = 0;
    for (const name of this.#rest.keys()) {
      const reason = Object.hasOwn(WITHOUT_EFFECT, name) ? WITHOUT_EFFECT[name] : undefined;
      if (reason !== undefined) this.notes.push(`${name} has no effect: ${reason}`);
      else if (OWN.test(name)) {
        this.findings.push({ path: name, message: unknown(name, known) });
      } else others++;
    }
    if (others) this.notes.push(`${others} properties are of other daemons and passed over`);
  }

  healthScripts({ healthScripts, healthIntervalMs, healthTimeoutMs }: TableValues) {
    if (healthScripts.length > HEALTH_SCRIPTS_MAX) {
      const message = `names ${healthScripts.length} scripts: ${HEALTH_SCRIPTS_MAX} at most`;
      this.findings.push({ path: PROPERTIES.healthScripts.name, message });
    }
    const paths = this.#values("healthScriptPath");
    this.#refuseUnlisted(paths.keys(), healthScripts, "healthScriptPath", "healthScripts");
    return healthScripts.flatMap((name): ConfiguredScript[] => {
      const script = paths.get(name);
      if (script === undefined) return [];
      const opts = String(this.#values("healthScriptArguments").get(name) ?? "");
      return [
        {
          name,
          path: String(script),
          arguments: opts.split(/[\s,]+/).filter(Boolean),
          intervalMs: Number(this.#values("healthScriptIntervalMs").get(name) ?? healthIntervalMs),
          timeoutMs: Number(this.#values("healthScriptTimeoutMs").get(name) ?? healthTimeoutMs),
        },
      ];
    });
  }

  services({ auxiliaryServices, auxiliaryServicesDirectory }: TableValues): ConfiguredService[] {
    const paths = this.#values("auxiliaryServicePath");
    this.#refuseUnlisted(
      paths.keys(),
      auxiliaryServices,
      "auxiliaryServicePath",
      "auxiliaryServices",
    );
    if (auxiliaryServices.length > 0 && auxiliaryServicesDirectory === undefined) {
      const { name } = PROPERTIES.auxiliaryServicesDirectory;
      this.findings.push({ path: name, message: "is missing: where do their modules lie?" });
    }
    return auxiliaryServices.map((name) => {
      const module = paths.get(name);
      if (module === undefined) {
        const path = FAMILIES.auxiliaryServicePath.replace("*", name);
        const message =
          "is missing: expects the ESM module of the service (Java classes do not run)";
        this.findings.push({ path, message });
      }
      const own = [...this.#values("auxiliaryServiceConfiguration")].flatMap(([key, value]) =>
        key.startsWith(`${name} `) ? [[key.slice(name.length + 1), String(value)] as const] : [],
      );
      return { name, path: String(module ?? ""), configuration: Object.fromEntries(own) };
    });
  }

  resourceTypes(): Record<string, number> {
    const types = [...this.#values("resourceTypes")];
    for (const [name] of types) {
      if (RESOURCE_NAME.test(name)) continue;
      const path = FAMILIES.resourceTypes.replace("*", name);
      this.findings.push({ path, message: "names no resource type such as yarn.io/gpu" });
    }
    return Object.fromEntries(types.map(([name, amount]) => [name, Number(amount)]));
  }

  family(family: "attributes" | "userMapping"): Record<string, string> {
    return Object.fromEntries(
      [...this.#values(family)].map(([name, value]) => [name, String(value)]),
    );
  }

  #values(family: keyof typeof FAMILIES): ReadonlyMap<string, string | number> {
    return this.#families.get(family) ?? new Map();
  }

  /** A script or service that is described but not listed would never run. */
  #refuseUnlisted(
    described: Iterable<string>,
    listed: readonly string[],
    family: keyof typeof FAMILIES,
    list: "healthScripts" | "auxiliaryServices",
  ): void {
    for (const name of described) {
      if (listed.includes(name)) continue;
      const message = `${PROPERTIES[list].name} does not list ${name}`;
      this.findings.push({ path: FAMILIES[family].replace("*", name), message });
    }
  }
}

/** The last `*` takes all that is left, dots included. */
function patternOf(family: string): RegExp {
  const text = family.replaceAll(".", "\\.").replace(/\*$/, "(.+)").replaceAll("*", "([^.]+)");
  return new RegExp(`^${text}$`);
}

function isRaw(value: unknown): value is RawValue {
  if (Array.isArray(value)) return value.every((each) => typeof each === "string");
  return ["string", "number", "boolean"].includes(typeof value);
}

/** `expects a whole number of MB from -1, not "many"`. */
function wanted(what: string, value: unknown, name: string): string {
  const isGroup = typeof value === "object" && !Array.isArray(value);
  const hint = isGroup ? `: write the whole name in one, such as ${name}.…` : "";
  return `expects ${what}, not ${describeValue(value)}${hint}`;
}

function unknown(name: string, known: readonly string[]): string {
  if (/\.aux-services\..+\.class$/.test(name)) {
    return "is of no use here: Java classes do not run; name an ESM module with ….path";
  }
  const guess = didYouMeanClause(name, known);
  return `unknown property${guess === "" ? "; docs/nodes.md lists all" : guess}`;
}
