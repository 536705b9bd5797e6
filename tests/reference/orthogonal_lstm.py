"""The orthogonal LSTM of one text, step by step, from Mohankumar et al. (2020), section 4.1; takes complex numbers."""

import numpy as np


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def orthogonal_states(text, weight_ih, weight_hh, bias):
    """States (T, n) of a text (T, E); the gates' rows in the order enter, forget, candidate, leave."""
    size = weight_hh.shape[1]
    hidden = np.zeros(size)
    memory = np.zeros(size)
    states = []
    for token in text:
        enter, forget, candidate, leave = np.split(weight_ih @ token + weight_hh @ hidden + bias, 4)
        memory = sigmoid(forget) * memory + sigmoid(enter) * np.tanh(candidate)
        hidden = sigmoid(leave) * np.tanh(memory)
        mean = np.mean(states, axis=0) if states else np.zeros(size)
        if np.any(mean != 0):
            hidden = hidden - (hidden @ mean) / (mean @ mean) * mean
        states.append(hidden)
    return np.array(states)


def conicity(states):
    """Mean cosine between the states (T, n) and their mean."""
    mean = states.mean(0)
    cosines = [abs(state @ mean) / (np.linalg.norm(state) * np.linalg.norm(mean)) for state in states]
    return float(np.mean(cosines))
