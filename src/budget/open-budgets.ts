// What this program shares with all others of its deployment: its budgets, in Redis where there is one, otherwise in the mirror's Postgres; and
// its tokens, in Redis alone, when that was asked for.

import type { Logger } from '../log.ts'
import type { Database } from '../store/server/connect.ts'
import { openSharedTokens, type SharedTokens } from '../upstream/auth/shared-tokens.ts'
import { type Budgets, openBudgets } from '../upstream/http/budget.ts'
import { openPostgresBudget } from './postgres-budget.ts'
import { openRedisBudget } from './redis-budget.ts'
import { openRedisTokens } from './redis-tokens.ts'

export type BudgetOptions = {
  readonly config: { readonly redisUrl: string | null }
  readonly database: Pick<Database, 'pool' | 'address' | 'cluster'>
  /** What is open already, and stays so. */
  readonly budgets?: Budgets
  /** How many workers there are; 0: that is not known. */
  readonly workers?: (() => number) | undefined
  readonly log: Logger
}

export function openSharedBudgets(options: BudgetOptions): Budgets & Disposable {
  const { config, database, budgets, workers = () => 0, log } = options
  if (budgets) return { ...budgets, [Symbol.dispose]: () => {} }
  const store =
    config.redisUrl === null
      ? { ...openPostgresBudget(database.pool), close: () => {} }
      : openRedisBudget({ redisUrl: config.redisUrl, deployment: deploymentOf(database), log })
  return { ...openBudgets({ store, workers, log }), [Symbol.dispose]: store.close }
}

/** Programs may reach one Postgres by several addresses. */
const deploymentOf = ({ address, cluster }: BudgetOptions['database']): string =>
  cluster === null ? address : `${cluster}${address.slice(address.lastIndexOf('/'))}`

/** Null: each program signs in for itself. */
export function openTokens(
  options: Pick<BudgetOptions, 'database' | 'log'> & {
    readonly config: { readonly redisUrl: string | null; readonly shareTokens: boolean }
    /** What is open already, and stays so. */
    readonly tokens?: SharedTokens | null
  },
): { readonly tokens: SharedTokens | null } & Disposable {
  const { config, database, tokens, log } = options
  const { redisUrl, shareTokens } = config
  if (tokens !== undefined || redisUrl === null || !shareTokens)
    return { tokens: tokens ?? null, [Symbol.dispose]: () => {} }
  const place = openRedisTokens({ redisUrl, deployment: deploymentOf(database), log })
  return { tokens: openSharedTokens(place, log), [Symbol.dispose]: place.close }
}
