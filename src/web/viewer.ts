// Who looks at a page, as far as pages care.

export type Viewer = {
  readonly canAct: boolean
  /** Goes into each form; null when the viewer cannot act. */
  readonly csrfToken: string | null
  readonly canSignIn: boolean
  /** What came of the action before this page. */
  readonly told: { readonly isGood: boolean; readonly text: string } | null
}

export const readOnlyViewer: Viewer = { canAct: false, csrfToken: null, canSignIn: false, told: null }
