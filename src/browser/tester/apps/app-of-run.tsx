import type { CallToolResult, Tool } from "@modelcontextprotocol/client";
import { useEffect, useRef, useState } from "preact/hooks";
import { readAppUri } from "../../../contract/apps.ts";
import { explain, type Explained } from "../explain.ts";
import { Failure } from "../outcome/failure.tsx";
import { LongText } from "../outcome/long-text.tsx";
import type { Runner } from "../run.ts";
import type { Connection } from "../session.ts";
import { Store, useStore } from "../store.ts";
import type { App, AppEvent, AppHost } from "./app-host.ts";

interface AppOfRunProps {
  readonly connection: Connection;
  readonly runner: Runner;
  readonly tool: Tool;
  readonly tools: readonly Tool[];
  /** The address of the page that takes the HTML of an app. */
  readonly frame: string;
}

/** The app of a tool, for the last result of it. */
export function AppOfRun({ runner, tool, ...rest }: AppOfRunProps) {
  const run = useStore(runner.run);
  const uri = readAppUri(tool);
  if (uri === undefined || run?.outcome?.kind !== "tool") return null;
  const { result } = run.outcome;
  return <AppView key={run.startedAt} uri={uri} tool={tool} args={run.args ?? {}} result={result} {...rest} />;
}

interface AppViewProps extends Omit<AppOfRunProps, "runner"> {
  readonly uri: string;
  readonly args: Record<string, unknown>;
  readonly result: CallToolResult;
}

const NOTHING = new Store<readonly AppEvent[]>([]);

function AppView({ connection, uri, tool, tools, frame, args, result }: AppViewProps) {
  const place = useRef<HTMLIFrameElement>(null);
  const [app, setApp] = useState<App>();
  const [host, setHost] = useState<AppHost>();
  const [error, setError] = useState<Explained>();
  useEffect(() => {
    let opened: AppHost | undefined;
    let isGone = false;
    const isDark = matchMedia("(prefers-color-scheme: dark)");
    const tellTheme = () => opened?.tellTheme();
    isDark.addEventListener("change", tellTheme);
    const open = async () => {
      // The bridge is loaded for the first app.
      const { AppHost, readApp } = await import("./app-host.ts");
      const read = await readApp(connection, uri);
      if (isGone || !place.current) return;
      opened = new AppHost({ connection, tool, tools, app: read, args, result });
      setApp(read);
      setHost(opened);
      await opened.open(place.current, frame);
    };
    open().catch((failure: unknown) => setError(explain(failure)));
    return () => {
      isGone = true;
      isDark.removeEventListener("change", tellTheme);
      void opened?.close();
    };
  }, []);
  return (
    <section class="app" aria-label={`App of ${tool.name}`}>
      <h3>App</h3>
      {error && <Failure error={error} />}
      {app && app.refused.length > 0 && (
        <p class="notice warn">It asks for {app.refused.join(", ")}, which this tester does not give it.</p>
      )}
      {/* Never with allow-same-origin: its page comes from Berth's own address. */}
      <iframe
        ref={place}
        title={`App ${uri}`}
        sandbox="allow-scripts"
        hidden={error !== undefined}
        class={app?.hasBorder === false ? "" : "bordered"}
      />
      <Events events={host?.events ?? NOTHING} />
    </section>
  );
}

/** A list of all that the app said and asked for, as texts. */
function Events({ events }: { readonly events: Store<readonly AppEvent[]> }) {
  const shown = useStore(events);
  if (shown.length === 0) return null;
  return (
    <ol class="lines" aria-label="What the app did">
      {shown.map(({ number, text, detail, link }) => (
        <li key={number}>
          The app {text}
          {detail !== undefined && detail !== "" && <LongText text={detail} label="Said" />}
          {link && (
            <p class="buttons">
              <a href={link.url} target="_blank" rel="noopener noreferrer" onClick={() => link.answer(true)}>
                Open the link
              </a>{" "}
              <button type="button" class="small" onClick={() => link.answer(false)}>
                Refuse
              </button>
            </p>
          )}
        </li>
      ))}
    </ol>
  );
}
