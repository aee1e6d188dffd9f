import { positions } from "./bundle.mts";
import { folders } from "./folders.mts";
import { messageUnitsMax, stackUnitsMax } from "./wire.mts";

/** An error as it is sent to the host. */
export interface ErrorDescription {
  readonly message: string;
  readonly stack: string | null;
  /** The program declares that the same call may succeed later. */
  readonly transient: boolean;
  /** The program declares that the whole request fails. */
  readonly protocol?: boolean;
}

const protocolErrors = new WeakSet<object>();

/** An error to throw when the request itself cannot be served, as opposed to a failure of its work. */
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

/** The sandbox has no network besides the relay's: no datagrams, and no other name resolution. */
const isOffline = process.execPath.startsWith("/sbx/");

/** Describes any thrown value, which may not be an Error and may resist inspection. */
export function describe(thrown: unknown): ErrorDescription {
  try {
    if (!(thrown instanceof Error) && !isErrorLike(thrown)) {
      return { message: shorten(textOf(thrown)), stack: null, transient: false };
    }
    const { name, message, stack, transient } = thrown as Error & { transient?: unknown };
    // V8 repeats the message, however long it is, before the frames.
    const trace = isString(stack) ? stack.slice(stack.indexOf(message) + message.length) : "";
    const frames = positions.mapStack(trace);
    const text =
      denial(thrown as Error) ?? ([name, message].every(isString) ? withName(name, message) : textOf(message));
    return {
      message: shorten(text),
      stack: frames
        ? [shorten(text), frames, positions.frameOf(trace)].filter(Boolean).join("\n").slice(0, stackUnitsMax)
        : null,
      transient: transient === true,
      protocol: protocolErrors.has(thrown as Error),
    };
  } catch {
    return { message: "the function threw something that cannot be shown", stack: null, transient: false };
  }
}

/**
 * Explains errors of Node whose messages name command-line flags or address families, which mean nothing to the author
 * of a definition. Stubs of refused modules in packages use the same code, and have their own advice.
 */
function denial(error: Error): string | undefined {
  const { code, syscall, path, permission, resource } = error as NodeJS.ErrnoException & Partial<PermissionDetails>;
  if (code === "ENOSPC") return DISK_FULL;
  const target = path ?? resource;
  if ((code === "ENOENT" || code === "ERR_ACCESS_DENIED") && isString(target) && target.startsWith(BUNDLE_FOLDER)) {
    return `${target} does not exist: a bundle is a single file, so a package finds no other files next to its code; ${DATA_FILE_HINT}`;
  }
  if (code === "ENOENT" && isString(path) && path !== "" && !path.startsWith("/")) {
    const plain = path.replace(/^(?:\.\/)+/, "");
    return `${error.message}: code runs in an empty scratch folder. For a file next to the definition, write import data from "./${plain}"; ${FOLDER_HINT}`;
  }
  const isLookup =
    /^(?:getaddrinfo|getnameinfo|query)/.test(String(syscall)) && error.message.startsWith(String(syscall));
  if (isOffline && (code === "EAFNOSUPPORT" || (isLookup && code !== "ENOTFOUND"))) {
    return 'Guest code can only open TCP connections and look up addresses, for the hosts and ports that "network" lists in its entry in mcps';
  }
  if (code !== "ERR_ACCESS_DENIED" || error.message.includes(" is refused. ")) return undefined;
  if (permission === "FileSystemRead") return `Guest code may not read files ${outsideFolders()}`;
  if (permission === "FileSystemWrite")
    return readOnlyFolder(resource) ?? `Guest code may not write files ${outsideFolders()}`;
  const what = isString(permission) ? (denials[permission] ?? `use ${permission}`) : "do this";
  return `Guest code may not ${what}; it reaches the outside through its context`;
}

/** The folder that packages take for their own (`bundleNames` of the compiler). */
const BUNDLE_FOLDER = "/bundle/";
const DATA_FILE_HINT =
  "import the file in a definition and pass its content to the package, or use a package whose data is in JavaScript or JSON";

const FOLDER_HINT =
  'for a folder of the machine, start berth dev with --folder data=./data, or add "folders": ["data"] to its entry in mcps, and read below context.folders["data"]';

/** The error does not tell which of them is full. */
const DISK_FULL =
  "The scratch folder (os.tmpdir()) is full (BERTH_GUEST_DISK_MB)" +
  (Object.keys(folders).length > 0 ? ", or the disk of one of its folders is" : "") +
  "; delete files after use";

interface PermissionDetails {
  readonly permission: unknown;
  /** The requested path. */
  readonly resource: unknown;
}

function outsideFolders(): string {
  const named = Object.entries(folders).map(([name, path]) => `its folder "${name}" (${path})`);
  const all = ["its scratch folder (os.tmpdir())", ...named].join(" and ");
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

/** Truncates a long text, and removes the temporary path of the bundle's file. */
function shorten(text: string): string {
  const message = text.replaceAll(/(?:file:\/\/)?\/\S*berth-bundle\.mjs/g, "the bundle");
  return message.length > messageUnitsMax ? `${message.slice(0, messageUnitsMax - 1)}…` : message;
}

function isString(value: unknown): value is string {
  return typeof value === "string";
}
