import { join, relative, resolve } from "node:path";
import { valueFault } from "../../secrets/secret-rules.ts";
import { findCredential, isPlaceholder } from "./credentials.ts";
import type { SecretPlan } from "./secret-plan.ts";
import type { ClientConfig } from "./servers.ts";

/** A server cannot be imported, for the reason in the message. */
export class Refusal extends Error {}

/** The folders and files that variables refer to, if the configuration is a file of this machine. */
export interface Place {
  /** The folder of the project that the file belongs to. */
  readonly folder?: string;
  /** The person's home. */
  readonly home?: string;
  /** Reads a file with variables; undefined without one. */
  readonly readFile?: (path: string) => string | undefined;
}

const NAME = "[A-Za-z_][A-Za-z0-9_]*";
const VARIABLE = new RegExp(String.raw`\$\{([^{}]*)\}|\{(env:${NAME}|file:[^{}]*)\}|^(Bearer )?\$(${NAME})$`, "g");
const FOLDER = /^(?:workspaceFolder(?::.*)?|workspaceRoot|CLAUDE_PROJECT_DIR|CLAUDE_PLUGIN_ROOT|extensionPath|cwd)$/;

/** Converts the texts of one server: variables of clients to those of Berth, credentials to secrets. */
export class Texts {
  readonly notes: string[] = [];
  readonly #server: string;
  readonly #inputs: ClientConfig["inputs"];
  readonly #secrets: SecretPlan;
  readonly #used = new Set<string>();
  readonly place: Place;

  constructor(server: string, inputs: ClientConfig["inputs"], secrets: SecretPlan, place: Place) {
    this.#server = server;
    this.#inputs = inputs;
    this.#secrets = secrets;
    this.place = place;
  }

  /** A copy that stores nothing, to see what a text becomes. */
  forTrial(): Pick<Texts, "template"> {
    const secrets = this.#secrets.copy();
    return new Texts(this.#server, this.#inputs, secrets, this.place);
  }

  get secretNames(): string[] {
    return [...this.#used].sort();
  }

  /**
   * A text in which `${NAME}` may stand for a variable of Berth, and `$${` for a literal `${`. `isOwn` tells variables
   * that the program expands itself; `isSetting`, that the program knows the text by this name.
   */
  template(
    name: string,
    text: string,
    { isOwn = () => false, isSetting = false }: { isOwn?: (variable: string) => boolean; isSetting?: boolean } = {},
  ): string {
    const secret = this.#literalSecret(name, text);
    if (secret === undefined) return this.#expand(text, isOwn);
    const variable = this.secret(isSetting ? name : `${this.#server}_${name || "SECRET"}`, secret);
    return text
      .split(secret)
      .map((part) => this.#expand(part, isOwn))
      .join(variable);
  }

  /** A text without variables. */
  literal(what: string, text: string): string {
    const converted = this.#expand(text, () => false, true).replaceAll("$${", "${");
    if (findCredential("", converted) === undefined) return converted;
    throw new Refusal(`${what} has a credential, and only arguments, variables, headers and queries can have one`);
  }

  /** A path of this machine. */
  path(what: string, text: string): string {
    const path = this.literal(what, text);
    const { folder, home } = this.place;
    if (/^~(?=\/|$)/.test(path) && home !== undefined) return join(home, path.slice(1));
    if (/^(?:\/|[A-Za-z]:[\\/])/.test(path)) return path;
    if (folder === undefined) throw new Refusal(`${what} is relative to a folder that is not known here`);
    return resolve(folder, path);
  }

  /** The variables in a file next to the configuration. */
  variables(what: string, text: string): string {
    const { folder, readFile } = this.place;
    const path = this.path(what, text);
    if (folder === undefined || readFile === undefined) throw new Refusal(`${what} cannot be read here`);
    if (relative(folder, path).startsWith("..")) throw new Refusal(`${what} is outside of the folder of the project`);
    const variables = readFile(path);
    if (variables === undefined) throw new Refusal(`${what} does not exist, or leads out of the folder of the project`);
    return variables;
  }

  /** A credential that is known to be one; returns the variable. */
  secret(name: string, value: string): string {
    return `\${${this.#store(name, value)}}`;
  }

  #store(name: string, value: string): string {
    const isUnset = isPlaceholder(value);
    if (!isUnset) {
      const fault = valueFault(value);
      if (fault !== undefined) throw new Refusal(`its credential ${name} cannot be a secret: ${fault}`);
    }
    const secret = isUnset
      ? this.#secrets.expect(name, this.#server, "a placeholder in the file")
      : this.#secrets.add(name, this.#server, value);
    this.#used.add(secret);
    return secret;
  }

  /** The part of a text that is a credential and contains no variable. */
  #literalSecret(name: string, text: string): string | undefined {
    const parts = [...text.matchAll(VARIABLE)].length === 0 ? [text] : text.replace(VARIABLE, "\0").split("\0");
    if (parts.length === 1) return findCredential(name, text);
    const found = parts.map((part) => findCredential("", part)).find((each) => each !== undefined);
    return found;
  }

  #expand(text: string, isOwn: (variable: string) => boolean, isLiteral = false): string {
    return text.replace(VARIABLE, (written, body: string = "", brace: string = "", scheme = "", plain: string = "") => {
      if (plain !== "") return isOwn(plain) ? written : `${scheme}${this.#variable(plain, undefined, isLiteral)}`;
      const inner = body || brace;
      const [, input] = /^(?:input|promptString):(.+)$/.exec(inner) ?? [];
      if (input !== undefined) return this.#input(input, isLiteral);
      const [, name, fallback] = new RegExp(`^(?:env:)?(${NAME})(?::-?([^]*))?$`).exec(inner) ?? [];
      const resolved = this.#known(inner);
      if (resolved !== undefined) return resolved;
      if (/^(?:file|command|config):/.test(inner))
        throw new Refusal(`it uses \${${inner}}, which only its client can resolve`);
      if (name === undefined || isOwn(name)) return written.startsWith("${") ? `$${written}` : written;
      return this.#variable(name, fallback, isLiteral);
    });
  }

  #variable(name: string, fallback: string | undefined, isLiteral: boolean): string {
    const value = name === "HOME" ? this.place.home : undefined;
    if (!isLiteral) {
      if (fallback !== undefined && findCredential(name, fallback) !== undefined) return this.secret(name, fallback);
      return fallback === undefined ? `\${${name}}` : `\${${name}:-${fallback}}`;
    }
    const text = value ?? fallback;
    if (text === undefined) throw new Refusal(`the variable ${name} is where Berth takes none: write its value there`);
    if (value === undefined) this.notes.push(`${name} has its default value`);
    return text;
  }

  #input(id: string, isLiteral: boolean): string {
    const { description = id, fallback } = this.#inputs.get(id) ?? {};
    if (isLiteral && fallback !== undefined) return fallback;
    if (isLiteral) throw new Refusal(`its client asks for "${id}", and Berth takes no variable there`);
    const name = this.#secrets.expect(id, this.#server, description);
    this.#used.add(name);
    return fallback === undefined ? `\${${name}}` : `\${${name}:-${fallback}}`;
  }

  /** The value of a variable that every client of its kind has. */
  #known(body: string): string | undefined {
    const { folder, home } = this.place;
    if (body === "/" || body === "pathSeparator") return "/";
    if (body === "userHome") return home ?? this.#unknown(body);
    if (body === "workspaceFolderBasename") return folder?.replace(/^.*\//, "") ?? this.#unknown(body);
    return FOLDER.test(body) ? (folder ?? this.#unknown(body)) : undefined;
  }

  #unknown(body: string): never {
    throw new Refusal(`\${${body}} is a folder that is not known here: write its path, or use "berth import FILE"`);
  }
}
