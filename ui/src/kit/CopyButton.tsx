// A text with a button that copies it: a command, code, or a secret that is shown once.
import { useState } from "react";
import { Button } from "@/kit/Button";
import { useToast } from "@/kit/toasts";

export function CopyButton({ text, label }: { text: string; label: string }) {
  const toast = useToast();
  const [isCopied, setCopied] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setCopied(true);
      window.setTimeout(() => setCopied(false), 2000);
    } catch {
      toast("Copying is blocked by the browser. Select the text and copy it.", "warn");
    }
  };
  return (
    <div className="copy">
      <pre>
        <code>{text}</code>
      </pre>
      <Button
        small
        icon={isCopied ? "check" : "copy"}
        aria-label={`Copy ${label}`}
        onClick={() => void copy()}
      >
        {isCopied ? "Copied" : "Copy"}
      </Button>
    </div>
  );
}
