/**
 * The tester of a server's page: the official client, in the browser, against the real endpoint. It is loaded when a
 * person opens it. `session.ts` holds the connection, `run.ts` the running request, `traffic.ts` the wire traffic;
 * `form/` makes forms from schemas, `panels/` choose the request, `outcome/` shows its outcome. It knows nothing of the
 * page except the element that it is put into.
 */
import { type ComponentChildren, render } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Messages } from "./messages.tsx";
import { RunView } from "./outcome/run-view.tsx";
import { PromptsPanel } from "./panels/prompts.tsx";
import { offersResource, readResource, ResourcesPanel } from "./panels/resources.tsx";
import { ToolsPanel } from "./panels/tools.tsx";
import { type Era, REVISIONS, Session, type State } from "./session.ts";
import { Store, useStore } from "./store.ts";
import { hashOf, type Kind, KINDS, type Target } from "./target.ts";

export interface Tester {
  show(target: Target): void;
}

/** Puts the tester of the MCP server at `endpoint` into an element. */
export function mountTester(element: Element, endpoint: string, first: Target | undefined): Tester {
  const session = new Session(endpoint);
  const target = new Store<Target>(first ?? { kind: "tool" });
  render(<TesterView session={session} target={target} />, element);
  void session.open("auto");
  return { show: (next) => target.set(next) };
}

function TesterView({ session, target }: { session: Session; target: Store<Target> }) {
  const state = useStore(session.state);
  return (
    <>
      <ConnectionBar session={session} />
      {state.phase === "failed" && (
        <div class="notice bad">
          <p>
            <strong>{state.error.title}</strong>
          </p>
          <p class="pre-line">{state.error.message}</p>
        </div>
      )}
      {state.phase === "connected" && <Bench session={session} state={state} target={target} />}
      <Messages traffic={session.traffic} />
    </>
  );
}

interface BenchProps {
  readonly session: Session;
  readonly state: Extract<State, { phase: "connected" }>;
  readonly target: Store<Target>;
}

function Bench({ session, state, target }: BenchProps) {
  const { connection, offers } = state;
  const { runner } = session;
  const { kind, name } = useStore(target);
  // The last choice in each of the other tabs.
  const [others, setOthers] = useState<Readonly<Partial<Record<Target["kind"], string | undefined>>>>({});
  useEffect(() => setOthers((others) => ({ ...others, [kind]: name })), [kind, name]);
  const choose = (next: Target) => {
    target.set(next);
    history.replaceState(null, "", hashOf(next) || location.pathname + location.search);
  };
  const { tools, resources, templates, prompts } = offers;
  const reader = (uri: string) =>
    offersResource(uri, resources, templates) ? () => readResource(connection, runner, uri) : undefined;
  const common = { connection, runner, chosen: name };
  return (
    <div class="bench">
      <div>
        <Tabs
          chosen={kind}
          counts={{ tool: tools.length, resource: resources.length + templates.length, prompt: prompts.length }}
          choose={(kind) => choose({ kind, ...(others[kind] !== undefined && { name: others[kind] }) })}
        >
          {kind === "tool" && <ToolsPanel {...common} tools={tools} choose={(name) => choose({ kind, name })} />}
          {kind === "resource" && (
            <ResourcesPanel {...common} {...{ resources, templates }} choose={(name) => choose({ kind, name })} />
          )}
          {kind === "prompt" && (
            <PromptsPanel {...common} prompts={prompts} choose={(name) => choose({ kind, name })} />
          )}
        </Tabs>
      </div>
      <RunView runner={runner} reader={reader} />
    </div>
  );
}

const ERAS: readonly (readonly [Era, string, string])[] = [
  ["auto", "Auto", "The client asks the server and uses the newest revision that both know"],
  ["modern", REVISIONS.modern, "Without sessions"],
  ["legacy", REVISIONS.legacy, "With initialize and a session"],
];

/** Chooses the protocol revision, and shows the connected server. */
function ConnectionBar({ session }: { session: Session }) {
  const era = useStore(session.era);
  const state = useStore(session.state);
  return (
    <div class="connection">
      <fieldset class="eras">
        <legend>Protocol</legend>
        {ERAS.map(([value, label, hint]) => (
          <label key={value} title={hint}>
            <input
              type="radio"
              name="tester-era"
              value={value}
              checked={era === value}
              onChange={() => void session.open(value)}
            />
            <span>{label}</span>
          </label>
        ))}
      </fieldset>
      <p role="status">
        {state.phase === "connecting" && "Connecting…"}
        {state.phase === "failed" && <span class="badge bad">Not connected</span>}
        {state.phase === "connected" && (
          <>
            <span class="badge good">Connected</span> {state.connection.server}, revision {state.connection.version}
          </>
        )}
      </p>
      {state.phase !== "connecting" && (
        <button type="button" class="small" onClick={() => void session.open(era)}>
          Connect again
        </button>
      )}
    </div>
  );
}

interface TabsProps {
  readonly chosen: Kind;
  readonly counts: Readonly<Record<Kind, number>>;
  readonly choose: (kind: Kind) => void;
  /** The panel of the chosen tab. */
  readonly children: ComponentChildren;
}

const LABELS: Readonly<Record<Kind, string>> = { tool: "Tools", resource: "Resources", prompt: "Prompts" };

/** Tabs in the ARIA pattern: one stop for the Tab key, and arrows to move between them. */
function Tabs({ chosen, counts, choose, children }: TabsProps) {
  const list = useRef<HTMLDivElement>(null);
  const move = ({ key }: { key: string }) => {
    const step = key === "ArrowRight" ? 1 : key === "ArrowLeft" ? -1 : 0;
    if (step === 0) return;
    const next = KINDS.at((KINDS.indexOf(chosen) + step) % KINDS.length) ?? chosen;
    choose(next);
    list.current?.querySelector<HTMLElement>(`#tester-tab-${next}`)?.focus();
  };
  return (
    <>
      <div class="tabs" role="tablist" aria-label="What to try" ref={list} onKeyDown={move}>
        {KINDS.map((kind) => (
          <button
            key={kind}
            type="button"
            role="tab"
            id={`tester-tab-${kind}`}
            aria-selected={kind === chosen}
            aria-controls="tester-panel"
            tabIndex={kind === chosen ? 0 : -1}
            onClick={() => choose(kind)}
          >
            {LABELS[kind]} <span class="badge">{counts[kind]}</span>
          </button>
        ))}
      </div>
      <div role="tabpanel" id="tester-panel" class="tabpanel" aria-labelledby={`tester-tab-${chosen}`}>
        {children}
      </div>
    </>
  );
}
