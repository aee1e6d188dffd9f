/**
 * The tester of a server's page: the official client, in the browser, against the real endpoint. It is loaded when a
 * person opens it. `session.ts` holds the connection, `run.ts` the running request, `traffic.ts` the wire traffic;
 * `form/` makes forms from schemas, `panels/` choose the request, `outcome/` shows its outcome. It knows nothing of the
 * page except the element that it is put into.
 */
import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ConnectionBar } from "./connection-bar.tsx";
import { Messages } from "./messages.tsx";
import { RunView } from "./outcome/run-view.tsx";
import { PromptsPanel } from "./panels/prompts.tsx";
import { offersResource, readResource, ResourcesPanel } from "./panels/resources.tsx";
import { ToolsPanel } from "./panels/tools.tsx";
import { Session, type State } from "./session.ts";
import { Store, useStore } from "./store.ts";
import { Tabs } from "./tabs.tsx";
import { hashOf, type Target } from "./target.ts";

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
