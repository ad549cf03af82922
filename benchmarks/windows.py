def slices_memory(*a):
    return {"bytes_a_pane": 0}
