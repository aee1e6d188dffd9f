declare module "berth" {
  export interface ToolContext {
    readonly signal: AbortSignal;
  }
}
interface AbortSignal {
  readonly aborted: boolean;
}
