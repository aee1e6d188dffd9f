import type { CallToolResult, Tool } from "@modelcontextprotocol/client";
import { ProtocolError, ProtocolErrorCode } from "@modelcontextprotocol/client";
import { AppBridge, PostMessageTransport } from "@modelcontextprotocol/ext-apps/app-bridge";
import { allowedOrigins } from "../../../contract/app-policy.ts";
import { APP_MIME_TYPE, readCallers } from "../../../contract/apps.ts";
import { isObject } from "../../../lib/json.ts";
import { APP_CALLS_MAX, APP_HEIGHT_MAX, APP_HEIGHT_MIN, APP_TEARDOWN_MS, SHOWN_LINES } from "../limits.ts";
import type { Connection } from "../session.ts";
import { Store } from "../store.ts";

/** The HTML of an app, and what its frame may load, with what it asks for and does not get. */
export interface App {
  readonly html: string;
  readonly csp: object;
  readonly refused: readonly string[];
  readonly hasBorder: boolean;
}

/** One thing that an app said or asked for, in words. */
export interface AppEvent {
  readonly number: number;
  readonly text: string;
  readonly detail?: string;
  /** A link that a person may open. */
  readonly link?: { readonly url: string; readonly answer: (opened: boolean) => void };
}

/** Reads the app of a tool, as any client does. Throws an `Error` that says what is wrong with it. */
export async function readApp({ client, meta }: Connection, uri: string): Promise<App> {
  const { contents } = await client.readResource({ uri, ...meta }, { cacheMode: "bypass" });
  const page = contents.find(({ mimeType }) => mimeType === APP_MIME_TYPE);
  if (!page) throw new Error(`${uri} has no contents of the type ${APP_MIME_TYPE}`);
  const html = "text" in page ? page.text : decoded(page.blob);
  const ui = isObject(page._meta) && isObject(page._meta["ui"]) ? page._meta["ui"] : {};
  const { allowed, leftOut } = allowedOrigins(ui["csp"], location.origin);
  const permissions = isObject(ui["permissions"]) ? Object.keys(ui["permissions"]) : [];
  return { html, csp: allowed, refused: [...leftOut, ...permissions], hasBorder: ui["prefersBorder"] !== false };
}

function decoded(base64: string): string {
  return new TextDecoder().decode(Uint8Array.from(atob(base64), (unit) => unit.charCodeAt(0)));
}

interface Hosting {
  readonly connection: Connection;
  readonly tool: Tool;
  /** Those that the server of the app lists: an app reaches no others. */
  readonly tools: readonly Tool[];
  readonly app: App;
  readonly args: Record<string, unknown>;
  readonly result: CallToolResult;
}

/**
 * One app in its frame, by the official bridge. The frame has an origin of its own; all that it can do here is send
 * messages, and each kind of them that is answered stands in this file.
 */
export class AppHost {
  readonly events = new Store<readonly AppEvent[]>([]);
  readonly #hosting: Hosting;
  readonly #bridge: AppBridge;
  #calls = 0;
  #told = 0;
  #isWritten = false;
  #isReady = false;

  constructor(hosting: Hosting) {
    const { app, tool } = hosting;
    this.#hosting = hosting;
    this.#bridge = new AppBridge(
      null,
      { name: "berth-tester", title: "Berth's tester", version: "1.0.0" },
      {
        openLinks: {},
        serverTools: {},
        serverResources: {},
        logging: {},
        message: { text: {} },
        updateModelContext: { text: {}, structuredContent: {} },
        sandbox: { csp: app.csp },
      },
      {
        hostContext: {
          toolInfo: { tool },
          theme: theme(),
          locale: navigator.language,
          timeZone: Intl.DateTimeFormat().resolvedOptions().timeZone,
          platform: "web",
          displayMode: "inline",
          availableDisplayModes: ["inline"],
          containerDimensions: { maxHeight: APP_HEIGHT_MAX },
        },
      },
    );
  }

  /** Turns an empty frame into the app's; `address` is that of the page that takes its HTML. */
  async open(frame: HTMLIFrameElement, address: string): Promise<void> {
    const bridge = this.#bridge;
    this.#answer(frame);
    await bridge.connect(new PostMessageTransport(frame.contentWindow!, frame.contentWindow!));
    const { app } = this.#hosting;
    frame.src = `${address}?csp=${encodeURIComponent(JSON.stringify(app.csp))}`;
  }

  tellTheme(): void {
    if (this.#isReady) void this.#bridge.sendHostContextChange({ theme: theme() });
  }

  /** Lets the app end itself, for a moment. */
  async close(): Promise<void> {
    for (const { link } of this.events.value) link?.answer(false);
    if (this.#isReady) await this.#bridge.teardownResource({}, { timeout: APP_TEARDOWN_MS }).catch(() => {});
    await this.#bridge.close();
  }

  #answer(frame: HTMLIFrameElement): void {
    const bridge = this.#bridge;
    const { app, args, result } = this.#hosting;
    bridge.onsandboxready = () => {
      // Once: a frame that an app has led elsewhere gets nothing.
      if (this.#isWritten) return;
      this.#isWritten = true;
      void bridge.sendSandboxResourceReady({ html: app.html });
    };
    bridge.oninitialized = () => {
      if (this.#isReady) return;
      this.#isReady = true;
      void bridge.sendToolInput({ arguments: args }).then(() => bridge.sendToolResult(result));
    };
    bridge.onsizechange = ({ height }) => {
      if (height === undefined) return;
      frame.style.height = `${Math.min(Math.max(height, APP_HEIGHT_MIN), APP_HEIGHT_MAX)}px`;
    };
    bridge.oncalltool = ({ name, arguments: given = {} }, { mcpReq }) => this.#call(name, given, mcpReq.signal);
    bridge.onreadresource = ({ uri }) => {
      const { client, meta } = this.#hosting.connection;
      this.#tell(`read ${uri}`);
      return client.readResource({ uri, ...meta }, { cacheMode: "bypass" });
    };
    bridge.onopenlink = ({ url }) => this.#openLink(url);
    // A request of the bridge, and no event.
    // oxlint-disable-next-line unicorn/prefer-add-event-listener
    bridge.onmessage = async ({ content }) => {
      this.#tell("sent a message to the conversation", textOf(content));
      return {};
    };
    bridge.onupdatemodelcontext = async ({ content, structuredContent }) => {
      const value = structuredContent === undefined ? undefined : JSON.stringify(structuredContent);
      this.#tell("changed what the model knows of it", [textOf(content ?? []), value].filter(Boolean).join("\n"));
      return {};
    };
    bridge.onloggingmessage = ({ level, data }) =>
      this.#tell(`logged (${level})`, typeof data === "string" ? data : JSON.stringify(data));
    bridge.onrequestdisplaymode = async ({ mode }) => {
      if (mode !== "inline") this.#tell(`asked to be shown ${mode}, and stays where it is`);
      return { mode: "inline" };
    };
    bridge.fallbackRequestHandler = ({ method }) => {
      this.#tell(`asked for ${method}, which this tester does not do`);
      const message = `Berth's tester does not do ${method}`;
      return Promise.reject(new ProtocolError(ProtocolErrorCode.MethodNotFound, message));
    };
  }

  /** A tool of the app's own server, and one that says that apps may call it. */
  async #call(name: string, args: Record<string, unknown>, signal: AbortSignal): Promise<CallToolResult> {
    const { connection, tools } = this.#hosting;
    const tool = tools.find((each) => each.name === name);
    const refuse = (reason: string): never => {
      this.#tell(`called ${name}, which was refused: ${reason}`);
      throw new ProtocolError(ProtocolErrorCode.InvalidParams, `${name}: ${reason}`);
    };
    if (!tool) return refuse("its server has no such tool");
    if (!readCallers(tool).app) return refuse("its visibility does not include apps");
    if (this.#calls >= APP_CALLS_MAX) return refuse(`${APP_CALLS_MAX} calls of the app are running already`);
    this.#tell(`called ${name}`, JSON.stringify(args));
    this.#calls += 1;
    try {
      return await connection.client.callTool({ name, arguments: args, ...connection.meta }, { signal });
    } finally {
      this.#calls -= 1;
    }
  }

  /** A person decides, by opening it. */
  #openLink(url: string): Promise<{ isError?: boolean }> {
    if (!/^https?:\/\//i.test(url) || !URL.canParse(url)) {
      this.#tell("asked to open what is no web address", url);
      return Promise.resolve({ isError: true });
    }
    return new Promise((resolve) => {
      const number = this.#tell("asks to open a link", url, {
        url,
        answer: (opened) => {
          this.events.set(
            this.events.value.map((event) =>
              event.number === number
                ? { number, text: opened ? "had a link opened" : "asked in vain to open a link", detail: url }
                : event,
            ),
          );
          resolve(opened ? {} : { isError: true });
        },
      });
    });
  }

  #tell(text: string, detail?: string, link?: AppEvent["link"]): number {
    const number = ++this.#told;
    const event = { number, text, ...(detail !== undefined && { detail }), ...(link && { link }) };
    this.events.set([...this.events.value.slice(-(SHOWN_LINES - 1)), event]);
    return number;
  }
}

function theme(): "light" | "dark" {
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

function textOf(content: readonly { readonly type: string; readonly text?: unknown }[]): string {
  return content.map(({ type, text }) => (typeof text === "string" ? text : `[${type}]`)).join("\n");
}
