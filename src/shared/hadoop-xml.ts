/**
 * Hadoop's configuration files (capacity-scheduler.xml, yarn-site.xml), and exactly those:
 * `<configuration>` with `<property>` elements of a `<name>`, a `<value>`, and what does not count here
 * (`<description>`, `<final>`, `<source>`, `<tag>`). Everything by which XML reads files, calls the
 * network or grows is refused: document types, entities of one's own, XInclude, attributes. So are
 * `${variables}`, which nothing would fill in here, and a property that stands there twice.
 */
import { type Finding, fail, ok, type Reply } from "./errors.ts";
import { LIMITS } from "./limits.ts";
import { invalid, quote } from "./validation.ts";

const IGNORED = /\s+|<!--[\s\S]*?-->|<\?[\s\S]*?\?>/y;
const OPENING = /<([A-Za-z_][\w.:-]*)\s*(\/?)>/y;
const CLOSING = /<\/([A-Za-z_][\w.:-]*)\s*>/y;
const TEXT =
  /[^<&]+|&(?:#(\d{1,7})|#x([0-9a-fA-F]{1,6})|(\w+));|<!\[CDATA\[([\s\S]*?)\]\]>|<!--[\s\S]*?-->/y;
const ENTITIES: ReadonlyMap<string, string> = new Map([
  ["lt", "<"],
  ["gt", ">"],
  ["amp", "&"],
  ["quot", '"'],
  ["apos", "'"],
]);
const FIELDS: ReadonlySet<string> = new Set([
  "name",
  "value",
  "description",
  "final",
  "source",
  "tag",
]);

const FINDINGS_MAX = 100;

/**
 * Full property names and their values, exactly as written; INVALID_ARGUMENT with every mistake for
 * anything else. A variable is a mistake where `isOurs`: other programs' properties may have some.
 * Never throws.
 */
export function readHadoopXml(
  text: string,
  isOurs: (property: string) => boolean = () => true,
): Reply<Map<string, string>> {
  if (text.length > LIMITS.requestBodyBytesMax) {
    return fail("INVALID_ARGUMENT", `XML of more than ${LIMITS.requestBodyBytesMax} characters`);
  }
  const reader = new HadoopXmlReader(text, isOurs);
  const properties = reader.readConfiguration();
  return reader.findings.length > 0 ? invalid(reader.findings) : ok(properties);
}

/** Goes through the text once. The first mistake in the XML itself ends the reading. */
class HadoopXmlReader {
  readonly findings: Finding[] = [];
  readonly #text: string;
  readonly #isOurs: (property: string) => boolean;
  #at = 0;

  constructor(text: string, isOurs: (property: string) => boolean) {
    this.#isOurs = isOurs;
    // A byte order mark is no content.
    this.#text = text.startsWith("\uFEFF") ? text.slice(1) : text;
  }

  /** Full property names and their values, exactly as written; mistakes are in `findings`. */
  readConfiguration(): Map<string, string> {
    const properties = new Map<string, string>();
    this.#skip();
    const opened = this.#open(["configuration"]);
    if (opened === undefined || opened.isEmpty) return properties;
    while (!this.#isBroken()) {
      this.#skip();
      if (this.#closes("configuration")) break;
      const property = this.#open(["property"]);
      if (property !== undefined && !property.isEmpty) this.#readProperty(properties);
    }
    this.#skip();
    if (!this.#isBroken() && this.#at < this.#text.length) {
      this.#break("nothing may stand after </configuration>");
    }
    return properties;
  }

  #readProperty(properties: Map<string, string>): void {
    const start = this.#at;
    const fields = new Map<string, string>();
    while (!this.#isBroken()) {
      this.#skip();
      if (this.#closes("property")) break;
      const field = this.#open([...FIELDS]);
      if (field === undefined) return;
      const text = field.isEmpty ? "" : this.#readText(field.name);
      if (fields.has(field.name)) this.#report(start, `has two <${field.name}> in one <property>`);
      fields.set(field.name, text);
    }
    if (this.#isBroken()) return;
    const name = fields.get("name")?.trim() ?? "";
    const value = fields.get("value");
    if (name === "") this.#report(start, "this <property> has no <name>");
    else if (value === undefined) this.findings.push({ path: name, message: "has no <value>" });
    else if (properties.has(name))
      this.findings.push({ path: name, message: "stands there twice" });
    else if (value.includes("${") && this.#isOurs(name)) {
      const message = `${quote(value)} has a variable: write out what it stands for`;
      this.findings.push({ path: name, message });
    } else properties.set(name, value);
  }

  /** Text up to the closing tag of the element. */
  #readText(element: string): string {
    const parts: string[] = [];
    while (!this.#isBroken()) {
      if (this.#closes(element)) return parts.join("");
      const match = this.#match(TEXT);
      if (match === undefined) {
        this.#break(`expects text and </${element}>, and & only as &amp;`);
        break;
      }
      const [whole, decimal, hexadecimal, entity, data] = match;
      if (decimal ?? hexadecimal) {
        parts.push(
          this.#character(Number.parseInt(decimal ?? hexadecimal ?? "", decimal ? 10 : 16)),
        );
      } else if (entity !== undefined) parts.push(this.#entity(entity));
      else if (data !== undefined) parts.push(data);
      else if (!whole.startsWith("<!--")) parts.push(whole);
    }
    return "";
  }

  #character(code: number): string {
    const isCharacter = code > 0 && code <= 0x10ffff && !(code >= 0xd800 && code <= 0xdfff);
    if (isCharacter) return String.fromCodePoint(code);
    this.#break("there is no such character");
    return "";
  }

  #entity(name: string): string {
    const character = ENTITIES.get(name);
    if (character === undefined) {
      this.#break(`the entity &${name}; is not allowed: only &lt; &gt; &amp; &quot; &apos;`);
    }
    return character ?? "";
  }

  /** The next tag, if it opens one of the elements; anything else is a mistake. */
  #open(
    elements: readonly string[],
  ): { readonly name: string; readonly isEmpty: boolean } | undefined {
    const match = this.#match(OPENING);
    const [, name = "", slash = ""] = match ?? [];
    if (match !== undefined && elements.includes(name)) return { name, isEmpty: slash === "/" };
    const expected = elements.map((element) => `<${element}>`).join(", ");
    const rest = this.#text.slice(this.#at);
    if (rest.startsWith("<!DOCTYPE")) this.#break("a document type is not allowed");
    else if (match !== undefined) this.#break(`<${name}> is not allowed here: expects ${expected}`);
    else if (/^<[\w:]+\s+[\w:]/.test(rest)) this.#break("attributes are not allowed");
    else this.#break(`expects ${expected}, not ${quote(rest.slice(0, 30))}`);
    return undefined;
  }

  #closes(element: string): boolean {
    CLOSING.lastIndex = this.#at;
    const match = CLOSING.exec(this.#text);
    if (match?.[1] !== element) return false;
    this.#at = CLOSING.lastIndex;
    return true;
  }

  /** Blanks, comments and processing instructions. */
  #skip(): void {
    while (this.#match(IGNORED) !== undefined);
  }

  #match(pattern: RegExp): RegExpExecArray | undefined {
    pattern.lastIndex = this.#at;
    const match = pattern.exec(this.#text);
    if (match === null) return undefined;
    this.#at = pattern.lastIndex;
    return match;
  }

  #isBroken(): boolean {
    return this.#at > this.#text.length;
  }

  /** A mistake after which the rest cannot be understood. */
  #break(message: string): void {
    if (!this.#isBroken()) this.#report(this.#at, message);
    this.#at = this.#text.length + 1;
  }

  /** Many mistakes are no file of Hadoop's, and each line number is counted from the beginning. */
  #report(at: number, message: string): void {
    const line = this.#text.slice(0, at).split("\n").length;
    this.findings.push({ path: `line ${line}`, message });
    if (this.findings.length >= FINDINGS_MAX) this.#at = this.#text.length + 1;
  }
}
