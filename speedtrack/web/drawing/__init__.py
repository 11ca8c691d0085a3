"""What the pages draw by themselves: plots, flame graphs and sparklines as SVG, and the colours and gaps of lines."""
