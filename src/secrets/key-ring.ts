import { createHash, randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { BerthError } from "../lib/errors.ts";
import { createKeyFile, readKeyFile, replaceKeyFile } from "../lib/key-file.ts";

/** A key of AES-256-GCM. */
export interface SecretKey {
  /** Distinguishes keys, and reveals nothing of them. */
  readonly id: string;
  readonly bytes: Uint8Array;
}

const KEY_BYTES = 32;

export function newKey(): SecretKey {
  return keyOf(randomBytes(KEY_BYTES));
}

export function keyOf(bytes: Uint8Array): SecretKey {
  const id = createHash("sha256").update("berth secret key\0").update(bytes).digest("hex").slice(0, 16);
  return { id, bytes };
}

/**
 * The keys that seal secrets: the first one seals, the others read older secrets. They are either the operator's, from
 * a file or the environment, which Berth never writes; or Berth's own, in a file of the data folder that is created
 * with the first secret.
 */
export interface KeyRing {
  /** The source of the keys, for people. */
  readonly source: string;
  /** The current keys: files are read again each time, so that a rotation needs no restart. Throws `config_invalid`. */
  keys(): readonly SecretKey[];
  /** The key to begin with. Throws `config_invalid` if there is none and none may be made. */
  first(): SecretKey;
  /**
   * A key to seal everything with anew: the operator's first, or a new one of Berth's own, which from now on stands
   * before the others. Call it only while no other process can rotate. Throws `config_invalid`.
   */
  next(current: string | undefined): SecretKey;
  /** Forgets all of Berth's own keys but this one; the operator's stay. */
  keepOnly(id: string): void;
}

/** The source of the operator's keys; without both, Berth uses its own. */
export interface KeySource {
  readonly file?: string | undefined;
  /** A secret. */
  readonly text?: string | undefined;
}

const OWN_FILE = "secret.key";

export function openKeyRing(dataDir: string, source: KeySource): KeyRing {
  const given = givenKeys("BERTH_SECRET_KEY", source);
  return given ? givenRing(given) : ownRing(join(dataDir, OWN_FILE));
}

/**
 * The operator's keys, one or more, as a setting and its `…_FILE` give them; undefined where neither is set. They are
 * read each time.
 */
export function givenKeys(variable: string, { file, text }: KeySource): Pick<KeyRing, "source" | "keys"> | undefined {
  if (file === undefined && text === undefined) return undefined;
  const source = file === undefined ? variable : `${variable}_FILE (${file})`;
  return {
    source,
    keys() {
      const found = parseKeys(source, text ?? read(source, file!));
      if (found.length === 0) throw invalid(`${source} holds no key; ${MAKE_ONE}`);
      return found;
    },
  };
}

function givenRing({ source, keys }: Pick<KeyRing, "source" | "keys">): KeyRing {
  return {
    source,
    keys,
    first: () => keys()[0]!,
    next(current) {
      const [first] = keys();
      if (first!.id !== current) return first!;
      throw invalid(
        `you manage ${source}, and its first key is the one in use; write a new key before it (${MAKE_ONE}), ` +
          "keep the old one after it until this is done, and rotate again",
      );
    },
    keepOnly() {},
  };
}

function ownRing(file: string): KeyRing {
  const keys = (): SecretKey[] => {
    try {
      return parseKeys(file, readKeyFile(file)?.toString("latin1") ?? "");
    } catch (error) {
      throw asInvalid(file, error);
    }
  };
  const write = (kept: readonly SecretKey[]): void => {
    try {
      replaceKeyFile(file, textOf(kept));
    } catch (error) {
      throw asInvalid(file, error);
    }
  };
  return {
    source: file,
    keys,
    first() {
      const [known] = keys();
      if (known) return known;
      try {
        return parseKeys(file, createKeyFile(file, textOf([newKey()])).toString("latin1"))[0]!;
      } catch (error) {
        throw asInvalid(file, error);
      }
    },
    next() {
      const made = newKey();
      write([made, ...keys()]);
      return made;
    },
    keepOnly(id) {
      const kept = keys().filter((key) => key.id === id);
      if (kept.length > 0 && kept.length < keys().length) write(kept);
    },
  };
}

/** How to make a key, for people. */
export const MAKE_ONE = "openssl rand -base64 32 makes one";

/** One key or several, separated by commas or lines; each has 32 bytes as base64, base64url or hex. */
function parseKeys(source: string, text: string): SecretKey[] {
  const words = text.split(/[\s,]+/).filter(Boolean);
  return words.map((word, index) => {
    const bytes = bytesOf(word);
    if (bytes?.length === KEY_BYTES) return keyOf(bytes);
    throw invalid(`${source}: key ${index + 1} is not ${KEY_BYTES} bytes as base64 or hex; ${MAKE_ONE}`);
  });
}

function bytesOf(word: string): Buffer | undefined {
  if (/^[0-9a-f]{64}$/i.test(word)) return Buffer.from(word, "hex");
  return /^[A-Za-z0-9+/_-]+={0,2}$/.test(word) ? Buffer.from(word, "base64url") : undefined;
}

function textOf(keys: readonly SecretKey[]): Buffer {
  return Buffer.from(keys.map(({ bytes }) => `${Buffer.from(bytes).toString("base64url")}\n`).join(""));
}

function read(source: string, file: string): string {
  try {
    return readFileSync(file, "latin1");
  } catch (error) {
    throw asInvalid(source, error);
  }
}

function invalid(detail: string): BerthError {
  return new BerthError("config_invalid", detail);
}

function asInvalid(file: string, error: unknown): BerthError {
  if (error instanceof BerthError) return error;
  return new BerthError("config_invalid", `${file}: ${(error as Error).message}`, { cause: error });
}
