"""Networks that name the inputs they used (Afchar & Hennequin 2020).

A mixture of experts inside one network: expert i sees only the feature groups in its subset S_i,
simple experts are preferred to those that contain them, and who is selected is the attribution.
"""
