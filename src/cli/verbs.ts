// The list of verbs, in the order in which the help shows them.

import type { Command } from './command.ts'

/** Loaded when called, so that a verb starts without the parts of all others. */
export const verbs: Readonly<Record<string, () => Promise<Command>>> = {
  init: async () => (await import('./init.ts')).init,
  config: async () => (await import('./config.ts')).config,
  serve: async () => (await import('./serve.ts')).serveCommand,
  sync: async () => (await import('./sync.ts')).sync,
  status: async () => (await import('./status.ts')).status,
  checkpoints: async () => (await import('./checkpoints.ts')).checkpoints,
  backfill: async () => (await import('./backfill.ts')).backfill,
  rewind: async () => (await import('./rewind.ts')).rewind,
  pause: async () => (await import('./pause.ts')).pause,
  resume: async () => (await import('./pause.ts')).resume,
  reconcile: async () => (await import('./reconcile.ts')).reconcile,
  deletions: async () => (await import('./deletions.ts')).deletions,
  verify: async () => (await import('./verify.ts')).verify,
  quarantine: async () => (await import('./quarantine.ts')).quarantine,
  runs: async () => (await import('./runs.ts')).runs,
  actions: async () => (await import('./actions.ts')).actions,
  probe: async () => (await import('./probe.ts')).probe,
  alerts: async () => (await import('./alerts.ts')).alerts,
  source: async () => (await import('./source.ts')).source,
  schema: async () => (await import('./schema.ts')).schema,
  contract: async () => (await import('./contract.ts')).contract,
  privacy: async () => (await import('./privacy.ts')).privacy,
  erase: async () => (await import('./erase.ts')).erase,
  explain: async () => (await import('./explain.ts')).explain,
  export: async () => (await import('./export.ts')).exportCommand,
  sql: async () => (await import('./sql.ts')).sql,
  migrate: async () => (await import('./migrate.ts')).migrate,
  webhooks: async () => (await import('./webhooks.ts')).webhooks,
  api: async () => (await import('./api.ts')).api,
  completion: async () => (await import('./completion.ts')).completion,
  demo: async () => (await import('./demo.ts')).demo,
  simulate: async () => (await import('./simulate.ts')).simulate,
}
