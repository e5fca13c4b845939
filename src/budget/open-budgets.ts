// The budgets of this program, shared with all others of its deployment: in Redis where there is one, otherwise in the mirror's Postgres.

import type { Logger } from '../log.ts'
import type { Database } from '../store/server/connect.ts'
import { type Budgets, openBudgets } from '../upstream/http/budget.ts'
import { openPostgresBudget } from './postgres-budget.ts'
import { openRedisBudget } from './redis-budget.ts'

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
  const closing = (close: () => void, opened: Budgets) => ({ ...opened, [Symbol.dispose]: close })
  if (budgets) return closing(() => {}, budgets)
  const { pool, address, cluster } = database
  if (config.redisUrl === null)
    return closing(() => {}, openBudgets({ store: openPostgresBudget(pool), workers, log }))
  // Programs may reach one Postgres by several addresses.
  const deployment = cluster === null ? address : `${cluster}${address.slice(address.lastIndexOf('/'))}`
  const store = openRedisBudget({ redisUrl: config.redisUrl, deployment, log })
  return closing(store.close, openBudgets({ store, workers, log }))
}
