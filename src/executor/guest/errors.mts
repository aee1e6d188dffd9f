import { positions } from "./bundle.mts";
import { folders } from "./folders.mts";
import { messageUnitsMax, stackUnitsMax } from "./wire.mts";

/** An error as it leaves the process. */
export interface Described {
  readonly message: string;
  readonly stack: string | null;
  /** The program says that the same call may succeed later. */
  readonly transient: boolean;
  /** The program says that the whole request fails. */
  readonly protocol?: boolean;
}

const protocolErrors = new WeakSet<object>();

/** An error to throw when the request itself cannot be served, rather than the work in it. */
export function protocolError(message: unknown): Error {
  const error = new Error(String(message));
  protocolErrors.add(error);
  return error;
}

const denials: Readonly<Record<string, string>> = {
  ChildProcess: "start other programs",
  WorkerThreads: "start worker threads",
  WASI: "use WASI",
  Inspector: "use the inspector",
  Addon: "load native addons",
};

/** In the sandbox there is no network besides the relay's: no datagrams, and nobody else who knows names. */
const isOffline = process.execPath.startsWith("/sbx/");

/** Describes whatever was thrown, which may be no error and may resist inspection. */
export function describe(thrown: unknown): Described {
  try {
    if (!(thrown instanceof Error) && !isErrorLike(thrown)) {
      return { message: shorten(textOf(thrown)), stack: null, transient: false };
    }
    const { name, message, stack, transient } = thrown as Error & { transient?: unknown };
    // What V8 puts before the frames is the message again, as long as it may be.
    const trace = isString(stack) ? stack.slice(stack.indexOf(message) + message.length) : "";
    const frames = positions.mapStack(trace);
    const said =
      denial(thrown as Error) ?? ([name, message].every(isString) ? withName(name, message) : textOf(message));
    return {
      message: shorten(said),
      stack: frames
        ? [shorten(said), frames, positions.frameOf(trace)].filter(Boolean).join("\n").slice(0, stackUnitsMax)
        : null,
      transient: transient === true,
      protocol: protocolErrors.has(thrown as Error),
    };
  } catch {
    return { message: "the function threw something that cannot be shown", stack: null, transient: false };
  }
}

/**
 * Node's messages name command-line flags, and families of addresses, which mean nothing to the author of a definition.
 * Packages' stubs of refused modules use the same code, and say what to do themselves.
 */
function denial(error: Error): string | undefined {
  const { code, syscall, path, permission, resource } = error as NodeJS.ErrnoException & Partial<Refusal>;
  if (code === "ENOSPC") return full;
  const place = path ?? resource;
  if ((code === "ENOENT" || code === "ERR_ACCESS_DENIED") && isString(place) && place.startsWith(BESIDE_BUNDLE)) {
    return `${place} is not there: a bundle is one file, and a package that reads others beside its code finds none; ${INSTEAD}`;
  }
  if (code === "ENOENT" && isString(path) && path !== "" && !path.startsWith("/")) {
    const plain = path.replace(/^(?:\.\/)+/, "");
    return `${error.message}: code runs in an empty scratch folder. For a file beside the definition, write import data from "./${plain}"; ${FOLDER}`;
  }
  const isAsked =
    /^(?:getaddrinfo|getnameinfo|query)/.test(String(syscall)) && error.message.startsWith(String(syscall));
  if (isOffline && (code === "EAFNOSUPPORT" || (isAsked && code !== "ENOTFOUND"))) {
    return 'Guest code has TCP connections and look-ups of addresses alone, to the hosts and ports that "network" of its entry in mcps lists';
  }
  if (code !== "ERR_ACCESS_DENIED" || error.message.includes(" is refused. ")) return undefined;
  if (permission === "FileSystemRead") return `Guest code may not read files ${elsewhere()}`;
  if (permission === "FileSystemWrite")
    return readOnlyFolder(resource) ?? `Guest code may not write files ${elsewhere()}`;
  const what = isString(permission) ? (denials[permission] ?? `use ${permission}`) : "do this";
  return `Guest code may not ${what}; its context gives it what it needs from outside`;
}

/** The folder that packages take for their own (`bundleNames` of the compiler). */
const BESIDE_BUNDLE = "/bundle/";
const INSTEAD =
  "import the file in a definition and give the package what is in it, or use a package that has its data in JavaScript or JSON";

const FOLDER =
  'for a folder of the machine, start berth dev with --folder data=./data, or add "folders": ["data"] to its entry in mcps, and read below context.folders["data"]';

/** Nothing tells which of them it is. */
const full =
  "The scratch folder (os.tmpdir()) is full (BERTH_GUEST_DISK_MB)" +
  (Object.keys(folders).length > 0 ? ", or the disk of one of its folders is" : "") +
  "; delete what is used";

interface Refusal {
  readonly permission: unknown;
  /** The path that was asked for. */
  readonly resource: unknown;
}

function elsewhere(): string {
  const places = Object.entries(folders).map(([name, path]) => `its folder "${name}" (${path})`);
  const all = ["its scratch folder (os.tmpdir())", ...places].join(" and ");
  const names = JSON.stringify([...Object.keys(folders), "name"]);
  return (
    `outside ${all}. To give it a folder of the machine, add its name to the entry in mcps, as "folders": ${names}; ` +
    "the operator declares folders with BERTH_FOLDERS"
  );
}

function readOnlyFolder(path: unknown): string | undefined {
  const isIn = (folder: string): boolean => isString(path) && (path === folder || path.startsWith(`${folder}/`));
  const [name] = Object.entries(folders).find(([, folder]) => isIn(folder)) ?? [];
  if (name === undefined) return undefined;
  return `The folder "${name}" is read-only: the operator may declare it as "writable" in BERTH_FOLDERS`;
}

function withName(name: string, message: string): string {
  return name === "Error" ? message || name : message ? `${name}: ${message}` : name;
}

function isErrorLike(value: unknown): boolean {
  return typeof value === "object" && value !== null && isString((value as Error).message);
}

function textOf(value: unknown): string {
  if (isString(value)) return value;
  return (typeof value === "object" && JSON.stringify(value)) || String(value);
}

/** Shortens a text that is too long; where the bundle's file was says nothing to anybody. */
function shorten(text: string): string {
  const message = text.replaceAll(/(?:file:\/\/)?\/\S*berth-bundle\.mjs/g, "the bundle");
  return message.length > messageUnitsMax ? `${message.slice(0, messageUnitsMax - 1)}…` : message;
}

function isString(value: unknown): value is string {
  return typeof value === "string";
}
