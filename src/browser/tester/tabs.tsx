import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";
import { type Kind, KINDS } from "./target.ts";

interface TabsProps {
  readonly chosen: Kind;
  readonly counts: Readonly<Record<Kind, number>>;
  readonly choose: (kind: Kind) => void;
  /** The panel of the chosen tab. */
  readonly children: ComponentChildren;
}

const LABELS: Readonly<Record<Kind, string>> = { tool: "Tools", resource: "Resources", prompt: "Prompts" };

/** Tabs in the ARIA pattern: one stop for the Tab key, and arrows to move between them. */
export function Tabs({ chosen, counts, choose, children }: TabsProps) {
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
