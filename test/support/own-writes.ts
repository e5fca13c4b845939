// Rows that are wrong although nobody else touched them: as a defect, or an upstream that showed too little, would leave them. What
// others write is noticed, and mended by itself (P15).

import type { Pool } from 'pg'

export async function writeAsTidemark(pool: Pool, sql: string): Promise<void> {
  await pool.query(`begin; set local tidemark.writer = 'on'; ${sql}; commit`)
}
