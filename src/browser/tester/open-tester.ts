import { element } from "../shared/dom.ts";
import { targetOf, type Target } from "./target.ts";
import type { Tester } from "./tester.tsx";

/**
 * Lets a person try what a server offers where the page shows it: by a link such as `#tool=echo`, or by an address that
 * ends like this. `[data-bench="tool"][data-name="echo"]` is the place of one tool; all resources share one place, and so
 * do all prompts. `[data-again][data-arguments]` has a call to run again. The client is loaded for the first of them. The links, with `data-try`, are hidden until here, since
 * they lead nowhere without scripts.
 */
export function openTester(panel: HTMLElement): void {
  const offers = panel.querySelector<HTMLElement>("[data-endpoint]");
  if (!offers) return;
  let tester: Promise<Tester> | undefined;

  const open = async (target: Target, args?: object) => {
    const place = placeOf(panel, target);
    if (!place) return sayMissing(offers, target);
    const details = place.closest("details");
    if (details) details.open = true;
    (details ?? place).scrollIntoView();
    place.setAttribute("aria-busy", "true");
    tester ??= load(offers);
    (await tester).show(target, place, args);
    place.removeAttribute("aria-busy");
  };
  const openByAddress = () => {
    const target = targetOf(location.hash);
    if (target && panel.isConnected && !panel.hidden) void open(target);
  };

  for (const element of panel.querySelectorAll<HTMLElement>("[data-try]")) element.hidden = false;
  addEventListener("hashchange", openByAddress);
  // A second click on the same link does not change the address.
  panel.addEventListener("click", (event) => {
    const link = event.target instanceof Element ? event.target.closest("a") : null;
    if (link?.hash && link.hash === location.hash) openByAddress();
  });
  const { again, arguments: args } = offers.dataset;
  if (again !== undefined && args !== undefined) void open({ kind: "tool", name: again }, JSON.parse(args) as object);
  else openByAddress();
}

function placeOf(panel: HTMLElement, { kind, name = "" }: Target): HTMLElement | null {
  const named = kind === "tool" ? `[data-name="${CSS.escape(name)}"]` : "";
  return panel.querySelector<HTMLElement>(`[data-bench="${kind}"]${named}`);
}

function sayMissing(offers: HTMLElement, { kind, name = "" }: Target): void {
  const notice = element("p", { className: "notice warn", role: "alert" }, `There is no ${kind} ${name} any more.`);
  if (offers.firstElementChild?.getAttribute("role") === "alert") offers.firstElementChild.remove();
  offers.prepend(notice);
  notice.scrollIntoView({ block: "nearest" });
}

async function load({ dataset: { endpoint = "", frame = "", style = "" } }: HTMLElement): Promise<Tester> {
  const [{ startTester }] = await Promise.all([import("./tester.tsx"), loadStyle(style)]);
  return startTester(endpoint, frame);
}

function loadStyle(href: string): Promise<void> {
  const link = document.createElement("link");
  link.rel = "stylesheet";
  link.href = href;
  return new Promise((resolve) => {
    link.addEventListener("load", () => resolve());
    // Without its style sheet it is plain, but it works.
    link.addEventListener("error", () => resolve());
    document.head.append(link);
  });
}
