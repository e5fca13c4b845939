// The three schemas. The tables of `mirror` are described nowhere, because their columns are found in the data.

import { pgSchema } from 'drizzle-orm/pg-core'

export const mirrorSchema = pgSchema('mirror')
export const biSchema = pgSchema('bi')
export const tidemark = pgSchema('tidemark')
