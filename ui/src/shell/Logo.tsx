/** The logo: a fence. */
export function Logo({ size = 24 }: { size?: number }) {
  return (
    <svg className="mark" viewBox="0 0 32 32" width={size} height={size} aria-hidden="true">
      <path d="M3 11h26v3H3zM3 19h26v3H3zM7 6l2-2 2 2v22H7zM14 6l2-2 2 2v22h-4zM21 6l2-2 2 2v22h-4z" />
    </svg>
  );
}
