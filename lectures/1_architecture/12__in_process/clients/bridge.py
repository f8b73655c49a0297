"""Answers the messages of a queue, as a Kafka consumer would. It waits for each answer."""


def bridge(inside, inbox, outbox):
    """One answer (number, digit) in the outbox per message (number, picture) of the inbox."""
    while (message := inbox.get()) is not None:
        number, picture = message
        logits = inside.infer("digits_onnx", {"image": picture[None]})["logits"]
        outbox.put((number, int(logits.argmax())))
